package wasmhost

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/sys"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// statusReasons are those that have a meaning; all others that are negative are the plugin's own.
var statusReasons = map[int32]string{
	plugin.StatusParams:      "the parameters are not valid",
	plugin.StatusPayload:     "a payload has not the length or form that the plugin reads",
	plugin.StatusCapacity:    "the space for results is too small",
	plugin.StatusMemory:      "the plugin is out of memory",
	plugin.StatusUnsupported: "not supported",
}

const (
	maxMessageBytes = 1 << 10
	errorFuel       = 100_000 // of pentad_error
	maxTrapFrames   = 4       // named in an error; panics take the first two or three
)

// exportFunc is an export of an instance.
type exportFunc struct {
	name   string
	number uint64 // at the trampoline
	there  bool
}

func (g *guest) export(name string) exportFunc {
	return exportFunc{name: name, number: exportNumber(name),
		there: g.entry.has[name] || name == exportStart && g.entry.hasStart}
}

// call runs an export on a budget. The result is 0 for functions without one.
func (g *guest) call(f *exportFunc, budget int64, args ...uint64) (uint64, error) {
	g.args = [1 + trampolineArgs]uint64{f.number}
	copy(g.args[1:], args)
	if g.wasi != nil && f.name != exportError { // which is asked about the call before it
		g.wasi.trimLog()
	}
	g.meter.begin(budget)
	err := g.trampoline.CallWithStack(g.ctx, g.args[:])
	g.used = uint64(budget - g.meter.left())
	g.usage.note(f.name, g.used, uint64(budget))
	g.unreported.calls++
	g.unreported.fuel += int64(g.used)
	g.spent += g.used
	switch {
	case err == nil:
		return g.args[0], nil
	case g.meter.stopped != nil:
		return 0, g.meter.stopped
	}
	return 0, g.trapped(f.name, err)
}

// check runs an export that returns a status and turns a negative one into an error.
func (g *guest) check(f *exportFunc, budget int64, args ...uint64) (int32, error) {
	result, err := g.call(f, budget, args...)
	if err != nil {
		return 0, err
	}
	status := int32(uint32(result))
	if status < 0 {
		return status, g.failedStatus(f.name, status)
	}
	return status, nil
}

// checkZero is check for exports that have nothing to return but success.
func (g *guest) checkZero(f *exportFunc, budget int64, args ...uint64) error {
	status, err := g.check(f, budget, args...)
	if err == nil && status != 0 {
		return g.fail(Output, f.name, fmt.Sprintf("returned %d, want 0 or a negative status",
			status))
	}
	return err
}

// fail counts a failure and returns its error.
func (g *guest) fail(kind ErrorKind, export, reason string) *Error {
	if g.lease.refused && (kind == Memory || kind == Trap) {
		kind = Busy
		reason += "; " + g.entry.host.budget.full()
	}
	if g.replays == nil {
		g.entry.host.counter.failures[kind].Add(1)
	}
	return g.failure(kind, export, reason)
}

// failure is fail without counting: for what is tried again.
func (g *guest) failure(kind ErrorKind, export, reason string) *Error {
	err := g.entry.fail(kind, export, reason)
	err.FuelUsed, err.MemoryBytes = g.used, uint64(g.memory.Size())
	return err
}

// trapped explains why a call did not return. Languages whose panics end in the instruction
// unreachable may have left a text for pentad_error before; it is asked once, on its own budget.
func (g *guest) trapped(export string, err error) *Error {
	var e *Error
	var exit *sys.ExitError
	switch {
	case g.meter.left() < 0:
		e = g.fail(Fuel, export, fmt.Sprintf("out of fuel after %s units: the loop does not end "+
			"or the work per batch is too large", grouped(g.used)))
	case int32(uint32(g.depth.Get())) < 0 || strings.Contains(err.Error(), "stack overflow"):
		e = g.fail(Fuel, export, "calls nest too deep: the recursion does not end or needs "+
			"more than 1 MiB of stack")
	case errors.As(err, &exit):
		e = g.fail(Trap, export, fmt.Sprintf("the program exited with code %d", exit.ExitCode()))
	default:
		reason := firstLine(err)
		e = g.fail(Trap, export, reason+trapPlace(err, g.entry.trampoline))
		if reason == "unreachable" && export != exportError {
			e.Message = g.lastMessage()
		}
	}
	if g.wasi != nil {
		e.Message = g.wasi.message()
	}
	return e
}

// failedStatus explains a negative status, in the guest's words where it has some.
func (g *guest) failedStatus(export string, status int32) *Error {
	kind := Status
	reason, ok := statusReasons[status]
	if !ok {
		reason = "failed"
	}
	if status == plugin.StatusMemory {
		kind = Memory
	}
	fail := g.fail
	if status == plugin.StatusCapacity && g.retries {
		fail = g.failure
	}
	e := fail(kind, export, fmt.Sprintf("%s (status %d)", reason, status))
	e.Status = status
	e.Message = g.lastMessage()
	if g.wasi != nil {
		e.Message = strings.TrimSpace(g.wasi.message() + "\n" + e.Message)
	}
	return e
}

// lastMessage asks pentad_error for a text. Whatever goes wrong there, what went wrong before is
// what counts.
func (g *guest) lastMessage() string {
	f := g.export(exportError)
	if !f.there {
		return ""
	}
	result, err := g.call(&f, errorFuel*g.scale)
	if err != nil {
		return ""
	}
	text, ok := g.memory.Read(uint32(result>>32), min(uint32(result), maxMessageBytes))
	if !ok {
		return ""
	}
	return cleanText(text)
}

// cleanText makes guest text fit for errors and logs.
func cleanText(text []byte) string {
	s := strings.ToValidUTF8(string(text), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// firstLine is the error without wazero's stack trace.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(line, "wasm error: ")
}

// trapPlace names the guest functions on top of wazero's stack trace, the innermost first, up to
// the trampoline.
func trapPlace(err error, trampoline string) string {
	_, trace, _ := strings.Cut(err.Error(), "wasm stack trace:\n\t")
	var names []string
	for frame := range strings.SplitSeq(trace, "\n\t") {
		name, _, ok := strings.Cut(frame, "(")
		name = strings.TrimPrefix(name, ".")
		if !ok || name == trampoline || len(name) > maxNameBytes || len(names) == maxTrapFrames {
			break
		}
		name = cleanText([]byte(name))
		names = append(names, strings.Join(strings.Fields(name), " "))
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return " in " + names[0]
	}
	return " in " + names[0] + ", called by " + strings.Join(names[1:], ", ")
}

// grouped writes 2597152 as 2,597,152.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
