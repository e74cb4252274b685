package wasmhost

import (
	"cmp"
	"fmt"
	"strings"
)

// Names that the host calls, and those that it adds to an instrumented module.
const (
	exportMemory          = "memory"
	exportABI             = "pentad_abi_1"
	exportDescribe        = "pentad_describe"
	exportAlloc           = "pentad_alloc"
	exportInit            = "pentad_init"
	exportFilter          = "pentad_filter"
	exportStateInit       = "pentad_state_init"
	exportAdd             = "pentad_add"
	exportMerge           = "pentad_merge"
	exportFinish          = "pentad_finish"
	exportSave            = "pentad_save"
	exportLoad            = "pentad_load"
	exportLinkPredecessor = "pentad_link_predecessor"
	exportError           = "pentad_error"
	exportInitialize      = "_initialize"

	exportFuel       = "pentad_fuel"
	exportDepth      = "pentad_depth"
	exportStart      = "pentad_fuel_start"  // the start function, so that it runs on a budget
	exportTrampoline = "pentad_fuel_door"   // see appendTrampoline
	exportGlobal     = "pentad_fuel_global" // and a number
)

const (
	i32 = string(rune(typeI32))
	i64 = string(rune(typeI64))
)

// signature is an export that the host may call.
type signature struct {
	name            string
	params, results string
	needed          byte // one of the needs below, or 0
}

const (
	needAlways          = 1
	needFilter          = 2
	needAggregate       = 4
	needMerge           = 8  // of an aggregate whose states are plain bytes
	needGrowth          = 16 // of one whose states grow
	needLinkPredecessor = 32 // aggregate that links predecessors
)

var signatures = [...]signature{
	{exportABI, "", "", needAlways},
	{exportDescribe, "", i32, needAlways},
	{exportAlloc, i32, i32, needAlways},
	{exportInit, i32 + i32, i32, needAlways},
	{exportFilter, i32 + i32, i32, needFilter},
	{exportStateInit, i32 + i32, "", needAggregate},
	{exportAdd, i32 + i32, i32, needAggregate},
	{exportMerge, i32 + i32 + i32, i32, needMerge},
	{exportSave, i32 + i32 + i32, i32, needGrowth},
	{exportLoad, i32 + i32 + i32, i32, needGrowth},
	{exportLinkPredecessor, i32 + i32, i32, needLinkPredecessor},
	{exportFinish, i32 + i32 + i32 + i32, i32, needAggregate},
	{exportError, "", i64, 0},
	{exportInitialize, "", "", 0},
}

// checkExports checks names and types of the exports and returns what the module can be: a set
// of needFilter, and needAggregate with needMerge, needGrowth or both, perhaps also with
// needLinkPredecessor.
func (m *parsed) checkExports() (kinds byte, err error) {
	for name := range m.exports {
		if strings.HasPrefix(name, exportFuel) || strings.HasPrefix(name, exportDepth) {
			return 0, fmt.Errorf("export %q: names that start with %s or %s belong to the host",
				name, exportFuel, exportDepth)
		}
	}
	if e, ok := m.exports[exportMemory]; !ok || e.kind != kindMemory {
		return 0, fmt.Errorf("export %q is missing; export the module's memory under this name",
			exportMemory)
	}
	missing := map[byte]string{}
	for _, s := range signatures {
		e, ok := m.exports[s.name]
		if !ok {
			missing[s.needed] = s.name
			continue
		}
		if !m.is(e, &s) {
			return 0, fmt.Errorf("export %q: want a function %s", s.name,
				describeType(s.params, s.results))
		}
	}
	if name := missing[needAlways]; name != "" {
		return 0, fmt.Errorf("export %q is missing", name)
	}
	if missing[needFilter] == "" {
		kinds |= needFilter
	}
	for _, need := range [...]byte{needMerge, needGrowth} {
		if missing[needAggregate] == "" && missing[need] == "" {
			kinds |= needAggregate | need
		}
	}
	if kinds&needAggregate != 0 && missing[needLinkPredecessor] == "" {
		kinds |= needLinkPredecessor
	}
	if kinds == 0 {
		return 0, fmt.Errorf("export %q (of a filter) and %q (of an aggregate) are missing; "+
			"a plugin is one of the two, or both", missing[needFilter],
			cmp.Or(missing[needAggregate], missing[needMerge]))
	}
	return kinds, nil
}

func describeType(params, results string) string {
	list := func(types string) string {
		names := make([]string, len(types))
		for i, t := range []byte(types) {
			names[i] = map[byte]string{typeI32: "i32", typeI64: "i64"}[t]
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return list(params) + " -> " + list(results)
}
