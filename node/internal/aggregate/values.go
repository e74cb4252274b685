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

// maxValueBytes bounds the values of a key in one query: 100,000 of some 100 bytes each.
const maxValueBytes = 32 << 20

// Values numbers what devices have for the key of the groups of one query, over all its sources: in
// keys of groups a number is in place of the mid. They are numbered as they come, so the same value
// has the same number whichever source it is from, and [Values.InOrder] says how to number them by
// their order. A nil one is of a query without a key, in which nothing has a value.
type Values struct {
	mu      sync.Mutex // guards all below
	numbers map[registry.Value]int64
	list    []registry.Value // by number
	bytes   int
}

// NewValues returns the numbers of values for a query, nil if its groups have no key.
func NewValues(by record.GroupBy) *Values {
	if by.Key == "" {
		return nil
	}
	return &Values{numbers: map[registry.Value]int64{}}
}

// number returns the number of a value. The caller holds mu.
func (v *Values) number(of registry.Value) (int64, error) {
	n, ok := v.numbers[of]
	if ok {
		return n, nil
	}
	const entry = 2 * 48 // of a map, and of the list
	if v.bytes += entry + len(of.Text()); v.bytes > maxValueBytes {
		return 0, &wire.Error{Kind: wire.KindTooLarge, Part: "group by", Message: fmt.Sprintf(
			"group by: more than %d MiB of different values; group by a key of fewer, or select "+
				"fewer devices", maxValueBytes>>20)}
	}
	n = int64(len(v.list))
	v.numbers[of], v.list = n, append(v.list, of)
	return n, nil
}

// of returns the value of a key of a group.
func (v *Values) of(k groupKey) registry.Value {
	if v == nil {
		return registry.Value{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.list[k.mid]
}

// setMID puts the number of the value of another node's state into its key.
func (v *Values) setMID(k *groupKey, of registry.Value) (err error) {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	k.mid, err = v.number(of)
	return err
}

// inOrder numbers the values by their order, and returns the new numbers by the old ones; nil if
// they are the same.
func (v *Values) inOrder() (now []int64) {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.IsSortedFunc(v.list, registry.Value.Compare) {
		return nil
	}
	now = make([]int64, len(v.list))
	slices.SortFunc(v.list, registry.Value.Compare)
	for n, value := range v.list {
		now[v.numbers[value]] = int64(n)
	}
	for n, value := range v.list {
		v.numbers[value] = int64(n)
	}
	return now
}

// DeviceValues says which value the devices of one source have, by the numbers of a query.
type DeviceValues struct {
	of      *store.DeviceValues
	numbers []int64 // by those of the source
}

// Found returns what the devices of a source have, in the numbers of the query.
func (v *Values) Found(of *store.DeviceValues) (*DeviceValues, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := &DeviceValues{of: of, numbers: make([]int64, len(of.List()))}
	for i, value := range of.List() {
		var err error
		if d.numbers[i], err = v.number(value); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// number returns the number of the value of a device.
func (d *DeviceValues) number(mid int64) int64 { return d.numbers[d.of.Of(mid)] }
