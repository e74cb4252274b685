package wire

import (
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestFault(t *testing.T) {
	key := record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 1 << 60, AcqNs: 5}
	want := api.Fault{Plugin: "mine", SHA256: "00", Export: "pentad_add", What: "status",
		Status: -2, FuelUsed: 1 << 60, MemoryBytes: 65536, Message: "too short: \"x\"\n",
		Records: 1, First: api.KeyOfFault(key), Last: api.KeyOfFault(key), Exact: true}
	frame := AppendError(nil, NewFault(KindPluginFailed, "people read this", want))
	var e Error
	if err := ParseError(frame[frameHeaderBytes:], &e); err != nil {
		t.Fatal(err)
	}
	got, ok := e.Fault()
	if !ok || !reflect.DeepEqual(got, want) || e.Message != "people read this" ||
		got.First.Key() != key {
		t.Errorf("%+v, %v of %+v", got, ok, e)
	}
	for _, e := range []Error{{Kind: KindPluginFailed}, {Kind: KindInvalid, Part: "plugin"},
		{Kind: KindPluginLimit, Part: "plugin", Reason: "{"}, {Kind: KindInternal, Part: "plugin",
			Reason: "{}"}} {
		if f, ok := e.Fault(); ok || f != (api.Fault{}) {
			t.Errorf("%+v has a fault: %+v", e, f)
		}
	}
}

func FuzzFault(f *testing.F) {
	f.Add(NewFault(KindBadModule, "", api.Fault{SHA256: "00", What: "refused"}).Reason)
	f.Add(`{"first":{"cid":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		e := Error{Kind: KindBadModule, Part: faultPart, Reason: text}
		fault, ok := e.Fault()
		if !ok {
			return
		}
		again, ok := NewFault(e.Kind, "", fault).Fault()
		if !ok || !reflect.DeepEqual(again, fault) {
			t.Fatalf("%+v became %+v", fault, again)
		}
	})
}

// TestModuleFrames puts frames after a query that do not belong there.
func TestModuleFrames(t *testing.T) {
	q := &record.Query{Filters: []record.PluginCall{{Name: "f"}, {Name: "g"}},
		Aggregate: record.PluginCall{Name: "a"}}
	module := func(use byte, rest ...byte) []byte {
		payload := append([]byte{use, 0, 0, 0, 0, 0, 0, 0}, rest...)
		return AppendFrame(nil, FrameModule, payload)
	}
	f := func(ok bool, frames ...[]byte) {
		t.Helper()
		body := AppendQuery(nil, q)
		for _, frame := range frames {
			body = append(body, frame...)
		}
		var got record.Query
		if err := ParseQuery(body, &got); (err == nil) != ok {
			t.Errorf("%x: %v", frames, err)
		}
	}
	f(true)
	f(true, module(1, 7), module(2), module(9))
	f(true, module(9, 7))
	f(false, module(2), module(1))
	f(false, module(9), module(1))
	f(false, module(1), module(1))
	f(false, module(0))
	f(false, module(3))
	f(false, module(10))
	f(false, module(1)[:15])
	f(false, AppendFrame(nil, FrameModule, []byte{1}))
	f(false, AppendFrame(nil, FrameModule, []byte{1, 0, 0, 0, 0, 0, 0, 9}))
	f(false, AppendQuery(nil, q))
	q.Filters = nil
	f(false, module(1))
}
