package aggregate

import (
	"fmt"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// maxValueBytes bounds the values of keys in one query: 100,000 of some 100 bytes each.
const maxValueBytes = 32 << 20

// Values numbers what devices have for the keys of the groups of one query, over all its sources:
// in keys of groups a number is in place of the mid. They are numbered as they come, so the same
// values have the same number whichever source they are from, and [Values.InOrder] says how to
// number them by their order. In a query that groups by the mid, too, keys of groups have the mid,
// and it has the numbers of devices. A nil one is of a query without keys, in which nothing has
// values.
type Values struct {
	byMID bool

	mu      sync.Mutex // guards all below
	numbers map[string]int64
	list    [][]registry.Value // by number
	bytes   int
	found   []*DeviceValues // of the sources of this node, if byMID
	devices map[int64]int64 // numbers by mid, of those of other nodes, if byMID
	key     []byte          // a buffer
}

// NewValues returns the numbers of values for a query, nil if its groups have no keys.
func NewValues(by record.GroupBy) *Values {
	if by.Key == "" {
		return nil
	}
	return &Values{byMID: by.MID, numbers: map[string]int64{}, devices: map[int64]int64{}}
}

// number returns the number of values. The caller holds mu.
func (v *Values) number(of []registry.Value) (int64, error) {
	v.key = registry.AppendValues(v.key[:0], of)
	n, ok := v.numbers[string(v.key)]
	if ok {
		return n, nil
	}
	const entry = 2 * 48 // of a map, and of the list
	if err := v.take(entry + 2*len(v.key) + 48*len(of)); err != nil {
		return 0, err
	}
	n = int64(len(v.list))
	v.numbers[string(v.key)], v.list = n, append(v.list, of)
	return n, nil
}

// take counts memory.
func (v *Values) take(bytes int) error {
	if v.bytes += bytes; v.bytes > maxValueBytes {
		return &wire.Error{Kind: wire.KindTooLarge, Part: "group by", Message: fmt.Sprintf(
			"group by: more than %d MiB of different values; group by a key of fewer, or select "+
				"fewer devices", maxValueBytes>>20)}
	}
	return nil
}

// of returns the values of a key of a group.
func (v *Values) of(k groupKey) []registry.Value {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.byMID {
		return v.list[k.mid]
	}
	if n, ok := v.devices[k.mid]; ok {
		return v.list[n]
	}
	for _, d := range v.found {
		if n := d.of.Of(k.mid); n > 0 {
			return d.of.List()[n]
		}
	}
	return v.found[0].of.List()[0]
}

// mid returns the mid of a key of a group.
func (v *Values) mid(k groupKey) int64 {
	if v != nil && !v.byMID {
		return 0
	}
	return k.mid
}

// set keeps the values of another node's state, and puts their number into its key if that is not
// of a mid.
func (v *Values) set(k *groupKey, of []registry.Value) (err error) {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	n, err := v.number(of)
	switch {
	case err != nil:
		return err
	case !v.byMID:
		k.mid = n
		return nil
	}
	const entry = 2 * 16
	if _, known := v.devices[k.mid]; !known {
		err = v.take(entry)
	}
	v.devices[k.mid] = n
	return err
}

// inOrder numbers the values by their order, and returns the new numbers by the old ones; nil if
// they are the same, or keys of groups have mids.
func (v *Values) inOrder() (now []int64) {
	if v == nil || v.byMID {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.IsSortedFunc(v.list, registry.CompareValues) {
		return nil
	}
	order := make([]int64, len(v.list))
	for n := range order {
		order[n] = int64(n)
	}
	slices.SortFunc(order, func(a, b int64) int {
		return registry.CompareValues(v.list[a], v.list[b])
	})
	now = make([]int64, len(v.list))
	list := make([][]registry.Value, len(v.list))
	for n, was := range order {
		now[was], list[n] = int64(n), v.list[was]
	}
	v.list = list
	for key, was := range v.numbers {
		v.numbers[key] = now[was]
	}
	return now
}

// DeviceValues says which values the devices of one source have, by the numbers of a query.
type DeviceValues struct {
	of      *store.DeviceValues
	numbers []int64 // by those of the source
}

// Found returns what the devices of a source have, in the numbers of the query.
func (v *Values) Found(of *store.DeviceValues) (*DeviceValues, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := &DeviceValues{of: of, numbers: make([]int64, len(of.List()))}
	if v.byMID {
		v.found = append(v.found, d)
		return d, nil
	}
	for i, values := range of.List() {
		var err error
		if d.numbers[i], err = v.number(values); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// number returns the number of the values of a device.
func (d *DeviceValues) number(mid int64) int64 { return d.numbers[d.of.Of(mid)] }
