package httpapi

import (
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
			device: func(_ int32, name string) (int64, error) {
				if name != "m1" && name != "m2" {
					return 0, nil
				}
				asked++
				return 0, down
			}}
		p, err := s.parseRecords(body, quantity.F64, names)
		if err != error(down) || names.failed != err || asked != 1 {
			t.Errorf("create %v: %v, %v, asked %d times", create, p, err, asked)
		}
		one := record.RangeSet{record.At(1)}
		if _, err := names.numbers(record.MID, "m1,m2", one); err != error(down) || asked != 1 {
			t.Errorf("create %v: %v, asked %d times", create, err, asked)
		}
		names.failed, names.device = nil, func(int32, string) (int64, error) { return 5, nil }
		p, err = s.parseRecords(append(body, `{"cid":1,"device":"\u0000","moid":7,"cap":1}`...),
			quantity.F64, names)
		if err != nil || p.rejected < 1 ||
			create && !strings.Contains(p.rejects[len(p.rejects)-1].Message, "not printable") {
			t.Errorf("create %v: %+v, %v", create, p, err)
		}
	}
}
