package wire

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
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
	f.Fuzz(func(t *testing.T, payload []byte) {
		var p, again Put
		if ParsePut(AppendFrame(nil, FramePut, payload), &p) != nil {
			return
		}
		frame, err := AppendPut(nil, &p)
		if err != nil {
			t.Fatal(err)
		}
		if err := ParsePut(frame, &again); err != nil || again.Seq != p.Seq ||
			again.Writer != p.Writer || !equalBatches(again.Batch, p.Batch) {
			t.Fatalf("read again differs, %v", err)
		}
	})
}

func FuzzRows(f *testing.F) {
	seedWith(f, "rows")
	seedWith(f, "put")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b, again record.Batch
		if ParseRows(payload, &b) != nil {
			return
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
	f.Fuzz(func(t *testing.T, payload []byte) {
		var q, again record.Query
		if ParseQuery(AppendFrame(nil, FrameQuery, payload), &q) != nil {
			return
		}
		if err := ParseQuery(AppendQuery(nil, &q), &again); err != nil || !reflect.DeepEqual(q,
			again) {
			t.Fatalf("%+v read again is %+v, %v", q, again, err)
		}
	})
}

func FuzzGroups(f *testing.F) {
	seedWith(f, "groups")
	f.Fuzz(func(t *testing.T, payload []byte) {
		groups, err := ParseGroups(payload, nil)
		if err != nil {
			return
		}
		if again := AppendGroups(nil, groups); !bytes.Equal(again[frameHeaderBytes:], payload) {
			t.Fatal("groups are written in another way than they were read")
		}
	})
}

func FuzzSmallAnswers(f *testing.F) {
	seedWith(f, "put-reply")
	seedWith(f, "end")
	seedWith(f, "error")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var reply PutReply
		if ParsePutReply(payload, &reply) == nil &&
			!bytes.Equal(AppendPutReply(nil, &reply)[frameHeaderBytes:], payload) {
			t.Fatal("a put reply is written in another way than it was read")
		}
		var end End
		if ParseEnd(payload, &end) == nil &&
			!bytes.Equal(AppendEnd(nil, &end)[frameHeaderBytes:], payload) {
			t.Fatal("an end is written in another way than it was read")
		}
		var e, again Error
		if ParseError(payload, &e) != nil {
			return
		}
		err := ParseError(AppendError(nil, &e)[frameHeaderBytes:], &again)
		if err != nil || again.Kind != e.Kind || again.RetryAfterMs != e.RetryAfterMs {
			t.Fatalf("%+v read again is %+v, %v", e, again, err)
		}
	})
}

// FuzzWriters goes the other way: whatever can be written is read back.
func FuzzWriters(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		b := randomBatch(rand.New(rand.NewPCG(seed, 0)), true)
		frame, err := AppendRows(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		var got record.Batch
		if err := ParseRows(frame[frameHeaderBytes:], &got); err != nil || !equalBatches(&got, b) {
			t.Fatalf("seed %d differs, %v", seed, err)
		}
	})
}
