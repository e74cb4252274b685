package httpapi

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestNamesThatCannotBeAsked: the answer about a body or a parameter with names that the node
// cannot look up is why, and not that they are wrong. It asks once.
func TestNamesThatCannotBeAsked(t *testing.T) {
	s := &Server{Parts: Parts{Clock: clock.New(clock.Options{})}}
	body := []byte(`{"cid":1,"mid":4,"moid":7,"cap":1,"value":1}
		{"cid":1,"device":"oulu/t 1","moid":7,"cap":1,"value":1}
		{"cid":1,"device":"m1","moid":7,"cap":1,"value":1}
		{"cid":1,"device":"m2","moid":7,"cap":1,"value":1}`)
	for _, create := range []bool{false, true} {
		asked := 0
		down := &wire.Error{Kind: wire.KindUnavailable, Message: "cut off"}
		names := &recordNames{create: create, devices: map[deviceName]int64{},
			find: func(_ int32, names []string) ([]int64, error) {
				if names[0] != "m1" && names[0] != "m2" {
					return make([]int64, len(names)), nil
				}
				asked++
				return nil, down
			}}
		p, err := s.parseRecords(body, quantity.F64, names)
		if err != error(down) || names.failed != err || asked != 1 {
			t.Errorf("create %v: %v, %v, asked %d times", create, p, err, asked)
		}
		one := record.RangeSet{record.At(1)}
		if _, err := names.numbers(record.MID, "m1,m2", one); err != error(down) || asked != 1 {
			t.Errorf("create %v: %v, asked %d times", create, err, asked)
		}
		names.failed, names.devices = nil, map[deviceName]int64{}
		names.find = func(int32, []string) ([]int64, error) { return []int64{5}, nil }
		p, err = s.parseRecords(append(body, `{"cid":1,"device":"\u0000","moid":7,"cap":1}`...),
			quantity.F64, names)
		if err != nil || p.rejected < 1 ||
			create && !strings.Contains(p.rejects[len(p.rejects)-1].Message, "not printable") {
			t.Errorf("create %v: %+v, %v", create, p, err)
		}
	}
}

// TestNamesOfBody: all devices of a body are asked for at once, and those of records that are
// refused not at all.
func TestNamesOfBody(t *testing.T) {
	s := &Server{Parts: Parts{Clock: clock.New(clock.Options{})}}
	body := []byte(`{"cid":1,"device":"a","moid":7,"cap":1,"value":1}
		{"cid":1,"device":"wrong","moid":7,"cap":1,"value":"x"}
		{"cid":1,"device":"b","moid":7,"cap":1,"value":1}
		{"cid":1,"device":"a","moid":7,"cap":2,"value":1}
		{"cid":1,"device":"none","moid":7,"cap":2,"value":1}`)
	var asked [][]string
	names := &recordNames{devices: map[deviceName]int64{}, missing: "what to do",
		find: func(_ int32, names []string) ([]int64, error) {
			asked = append(asked, names)
			return []int64{5, 6, 0}, nil
		}}
	p, err := s.parseNamed(body, quantity.F64, names, nil)
	if err != nil || !slices.Equal(p.rows.MID, []int64{5, 6, 5}) || p.rejected != 2 ||
		!strings.Contains(p.rejects[1].Message, `no device with the name "none"; what to do`) {
		t.Errorf("%+v, %v", p, err)
	}
	if want := [][]string{{"a", "b", "none"}}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}
