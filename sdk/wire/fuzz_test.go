package wire

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Every target reads any bytes, and what it can read it writes and reads again: the meaning must
// be the same.

func seedWith(f *testing.F, name string) {
	f.Helper()
	f.Add(exampleFrames(f)[name][frameHeaderBytes:])
}

func FuzzReader(f *testing.F) {
	var all []byte
	for _, frame := range exampleFrames(f) {
		all = append(all, frame...)
		f.Add(frame)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, src []byte) {
		r := NewReader(bytes.NewReader(src), 1<<20)
		rest := src
		for {
			kind, payload, err := r.Next()
			kind2, payload2, rest2, err2 := ParseFrame(rest, 1<<20)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("reader: %v, ParseFrame: %v", err, err2)
			}
			if err != nil {
				return
			}
			if kind != kind2 || !bytes.Equal(payload, payload2) {
				t.Fatalf("reader and ParseFrame differ")
			}
			again := AppendFrame(nil, kind, payload)
			if !bytes.Equal(again, rest[:len(rest)-len(rest2)]) {
				t.Fatal("a frame is written in another way than it was read")
			}
			rest = rest2
		}
	})
}

func FuzzPut(f *testing.F) {
	seedWith(f, "put")
	seedWith(f, "put-tombs")
	seedWith(f, "persistent-put")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var p, again Put
		if within(t, "put", payload) != nil {
			return
		}
		if err := ParsePut(AppendFrame(nil, FramePut, payload), &p); err != nil {
			t.Fatal(err)
		}
		err := ParsePut(AppendFrame(nil, FramePersistentPut, payload), new(Put))
		if p.Persistent = err == nil; p.Persistent == (p.Writer == [16]byte{}) {
			t.Fatalf("persistent %v, %v", p.Persistent, err)
		}
		frame, err := AppendPut(nil, &p)
		if err != nil {
			t.Fatal(err)
		}
		if err := ParsePut(frame, &again); err != nil || again.Seq != p.Seq ||
			again.Writer != p.Writer || again.Persistent != p.Persistent ||
			!equalBatches(again.Batch, p.Batch) {
			t.Fatalf("read again differs, %v", err)
		}
	})
}

func FuzzRows(f *testing.F) {
	seedWith(f, "rows")
	seedWith(f, "put")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b, again record.Batch
		if within(t, "rows", payload) != nil {
			return
		}
		if err := ParseRows(payload, &b); err != nil {
			t.Fatal(err)
		}
		if err := b.CheckShape(); err != nil {
			t.Fatal(err)
		}
		frame, err := AppendRows(nil, &b)
		if err != nil {
			t.Fatal(err)
		}
		if err := ParseRows(frame[frameHeaderBytes:], &again); err != nil || !equalBatches(&again,
			&b) {
			t.Fatalf("read again differs, %v", err)
		}
	})
}

func FuzzColumn(f *testing.F) {
	f.Add([]byte{0, 3, 5, 0, 0, 0, 0, 0, 0, 0, 0xc8, 9}, uint16(4))
	f.Fuzz(func(t *testing.T, src []byte, n uint16) {
		var c columns
		if n == 0 || c.parse(&decoder{src: src}, int(n)) != nil {
			return
		}
		values := slices.Clone(c.values)
		if len(values) != int(n) {
			t.Fatalf("%d values, want %d", len(values), n)
		}
		d := &decoder{src: c.append(nil, values)}
		if err := c.parse(d, int(n)); err != nil || len(d.src) > 0 || !slices.Equal(c.values,
			values) {
			t.Fatalf("read again differs, %v", err)
		}
	})
}

func FuzzQuery(f *testing.F) {
	seedWith(f, "query")
	seedWith(f, "query-window")
	seedWith(f, "query-select")
	seedWith(f, "query-where")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var q, again record.Query
		if within(t, "query", payload) != nil {
			return
		}
		if err := ParseQuery(AppendFrame(nil, FrameQuery, payload), &q); err != nil {
			t.Fatal(err)
		}
		if err := ParseQuery(AppendQuery(nil, &q), &again); err != nil || !reflect.DeepEqual(q,
			again) {
			t.Fatalf("%+v read again is %+v, %v", q, again, err)
		}
	})
}

func FuzzBox(f *testing.F) {
	seedWith(f, "box")
	f.Add(AppendBox(nil, selectedBox())[frameHeaderBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b, again Box
		if within(t, "box", payload) != nil {
			return
		}
		if err := ParseBox(AppendFrame(nil, FrameBox, payload), &b); err != nil {
			t.Fatal(err)
		}
		if err := ParseBox(AppendBox(nil, &b), &again); err != nil ||
			!reflect.DeepEqual(b, again) {
			t.Fatalf("%+v read again is %+v, %v", b, again, err)
		}
	})
}

func FuzzGroups(f *testing.F) { fuzzGroups(f, "groups", false) }

func FuzzKeyedGroups(f *testing.F) { fuzzGroups(f, "keyed-groups", true) }

func fuzzGroups(f *testing.F, name string, keyed bool) {
	seedWith(f, name)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if within(t, name, payload) != nil {
			return
		}
		groups, err := ParseGroups(payload, keyed, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := AppendGroups(nil, groups, keyed)
		if !bytes.Equal(again[frameHeaderBytes:], payload) {
			t.Fatal("groups are written in another way than they were read")
		}
	})
}

func FuzzStates(f *testing.F) { fuzzStates(f, "states", false) }

func FuzzKeyedStates(f *testing.F) { fuzzStates(f, "keyed-states", true) }

func fuzzStates(f *testing.F, name string, keyed bool) {
	seedWith(f, name)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if within(t, name, payload) != nil {
			return
		}
		states, err := ParseStates(payload, keyed, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := AppendStates(nil, states, keyed)
		if !bytes.Equal(again[frameHeaderBytes:], payload) {
			t.Fatal("states are written in another way than they were read")
		}
	})
}

func FuzzPutReply(f *testing.F) {
	seedWith(f, "put-reply")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var reply PutReply
		if within(t, "put-reply", payload) == nil && (ParsePutReply(payload, &reply) != nil ||
			!bytes.Equal(AppendPutReply(nil, &reply)[frameHeaderBytes:], payload)) {
			t.Fatal("a put reply is written in another way than it was read")
		}
	})
}

func FuzzEnd(f *testing.F) {
	seedWith(f, "end")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var end, again End
		if within(t, "end", payload) != nil {
			return
		}
		if err := ParseEnd(payload, &end); err != nil {
			t.Fatal(err)
		}
		err := ParseEnd(AppendEnd(nil, &end)[frameHeaderBytes:], &again)
		if len(end.Reason) > maxTextBytes {
			end.Reason = again.Reason
		}
		if err != nil || again != end {
			t.Fatalf("%+v read again is %+v, %v", end, again, err)
		}
	})
}

func FuzzError(f *testing.F) {
	seedWith(f, "error")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var e, again Error
		if within(t, "error", payload) != nil {
			return
		}
		if err := ParseError(payload, &e); err != nil {
			t.Fatal(err)
		}
		err := ParseError(AppendError(nil, &e)[frameHeaderBytes:], &again)
		if len(payload) > maxTextBytes {
			e.Message, e.Part, e.Reason = again.Message, again.Part, again.Reason
		}
		if err != nil || again != e {
			t.Fatalf("%+v read again is %+v, %v", e, again, err)
		}
	})
}

// FuzzWriters goes the other way: whatever can be written is read back.
func FuzzWriters(f *testing.F) {
	f.Add(uint64(1), "why", []byte("result"), int64(-1), true)
	f.Fuzz(func(t *testing.T, seed uint64, text string, data []byte, number int64, yes bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		roundTripBatch(t, rng)
		text = text[:min(len(text), maxTextBytes)]
		reply := PutReply{number, int64(rng.Uint64()), rng.Uint32(), yes}
		var gotReply PutReply
		err := ParsePutReply(AppendPutReply(nil, &reply)[frameHeaderBytes:], &gotReply)
		if err != nil || gotReply != reply {
			t.Fatalf("%+v, want %+v, %v", gotReply, reply, err)
		}
		end := End{yes, text, number, rng.Uint64(), rng.Uint64(), rng.Uint64(), -number,
			int64(rng.Uint64())}
		var gotEnd End
		err = ParseEnd(AppendEnd(nil, &end)[frameHeaderBytes:], &gotEnd)
		if err != nil || gotEnd != end {
			t.Fatalf("%+v, want %+v, %v", gotEnd, end, err)
		}
		remote := Error{Kind(rng.IntN(255) + 1), text, text, text, rng.Uint32()}
		var gotError Error
		err = ParseError(AppendError(nil, &remote)[frameHeaderBytes:], &gotError)
		if err != nil || gotError != remote {
			t.Fatalf("%+v, want %+v, %v", gotError, remote, err)
		}
		groups := []Group{{CID: int32(number), MID: number, MOID: -int32(number), CapNs: -number,
			Records: uint64(number), Result: data,
			Values: []registry.Value{registry.Number(float64(number)), registry.Bool(yes)}},
			{Result: []byte(text), Values: make([]registry.Value, 1)}}
		got, err := ParseGroups(AppendGroups(nil, groups, true)[frameHeaderBytes:], true, nil)
		if err != nil || !slices.EqualFunc(got, groups, equalGroups) {
			t.Fatalf("%+v, want %+v, %v", got, groups, err)
		}
	})
}

func equalGroups(a, b Group) bool {
	return a.CID == b.CID && a.MID == b.MID && a.MOID == b.MOID && a.CapNs == b.CapNs &&
		a.Records == b.Records && bytes.Equal(a.Result, b.Result) &&
		slices.Equal(a.Values, b.Values)
}

func roundTripBatch(t *testing.T, rng *rand.Rand) {
	t.Helper()
	b := randomBatch(rng, true)
	frame, err := AppendRows(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	var got record.Batch
	if err := ParseRows(frame[frameHeaderBytes:], &got); err != nil || !equalBatches(&got, b) {
		t.Fatalf("read again differs, %v", err)
	}
}

// FuzzQueryWriter writes any query: it is read as what Normalize makes of it, or refused alike.
func FuzzQueryWriter(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(0), int64(0), int64(0), "", []byte(nil))
	f.Add(uint64(2), uint8(2), uint8(1), int64(1), int64(9), "stats", []byte("x"))
	f.Fuzz(func(t *testing.T, seed uint64, view, order uint8, from, to int64, name string,
		params []byte,
	) {
		q := randomQuery(rand.New(rand.NewPCG(seed, 0)))
		if view > 0 {
			q.View, q.Order = record.View(view-1), record.Order(order)
		}
		if from != to {
			dim := seed % record.NumDims
			q.Box[dim] = append(q.Box[dim], record.Range{From: from, To: to})
		}
		if name != "" {
			q.Aggregate = record.PluginCall{Name: name, Params: params}
		}
		var got record.Query
		sameQuery(t, &got, ParseQuery(AppendQuery(nil, q), &got), q)
	})
}

// sameQuery wants got to be want normalized, or the error that Normalize has for want.
func sameQuery(t *testing.T, got *record.Query, err error, want *record.Query) {
	t.Helper()
	normal := want.Normalize()
	if normal != nil || err != nil {
		if normal == nil || err == nil || normal.Error() != err.Error() {
			t.Fatalf("%v on the wire, %v before", err, normal)
		}
		return
	}
	if len(want.Aggregate.Params) == 0 {
		want.Aggregate.Params = nil
	}
	for i := range want.Filters {
		if call := &want.Filters[i]; len(call.Params) == 0 {
			call.Params = nil
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
}
