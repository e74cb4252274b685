package node

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestLargePayloads stores payloads up to the limit and asks for all of them at once, in the head
// and sealed: an answer is cut into frames that a client takes.
func TestLargePayloads(t *testing.T) {
	rounds.NotUnderRace(t, "its work is that of other answers, with more bytes")
	n := openTest(t, Options{})
	db := dial(t, n)
	noise := rand.NewChaCha8([32]byte{1})
	var want [][]byte
	for i, size := range []int{record.MaxPayloadBytes, 0, 5 << 20, 9 << 20, 20 << 20, 1, 20 << 20} {
		payload := make([]byte, size)
		_, _ = noise.Read(payload) // never fails
		want = append(want, payload)
		var b record.Batch
		b.Append(record.Key{CID: 1, MID: int64(i)}, payload)
		if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for _, q := range []record.Query{{}, {Order: record.OrderKey}, {View: record.ViewLatest},
			{Box: record.Box{record.CID: {record.At(1)}, record.MOID: {record.At(0)},
				record.MID: {{From: 0, To: 100}}}},
			{Box: record.Box{record.Acq: {{From: 1, To: record.Acq.Max()}}}}} {
			got := map[int64]bool{}
			for r, err := range db.Query(t.Context(), &q) {
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				if !bytes.Equal(r.Payload, want[r.MID]) {
					t.Errorf("%s: payload %d differs", when, r.MID)
				}
				got[r.MID] = true
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d records, want %d", when, len(got), len(want))
			}
		}
		groups, _, err := db.Aggregate(t.Context(), &record.Query{
			Aggregate: record.PluginCall{Name: "count"}})
		if err != nil || groups[0].Records != uint64(len(want)) {
			t.Errorf("%s: %v, %v", when, groups, err)
		}
		// A payload that no instance has space for is the plugin's limit, not the node's end.
		var remote *wire.Error
		_, _, err = db.Aggregate(t.Context(), &record.Query{
			Aggregate: record.PluginCall{Name: "stats"}})
		if !errors.As(err, &remote) ||
			remote.Kind != wire.KindPluginLimit && remote.Kind != wire.KindPluginFailed {
			t.Errorf("%s: stats of 32 MiB: %v", when, err)
		}
	}
	check("in the head")
	if err := n.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("sealed")
}
