package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// sealedHouse is a node with meters whose readings are sealed, and who holds their keys. The node
// holds none.
type sealedHouse struct {
	*testing.T
	n       *Node
	rng     *rand.Rand
	schema  *seal.Schema
	tenant  *seal.Tenant
	writers map[int64]*seal.Writer
	// latest are the payloads of the latest versions.
	latest map[record.Key][]byte
	plain  map[record.Key]int64

	corrects bool // earlier readings now and then
}

const sealedTenant, sealedMOID = 5, 9

func newSealedHouse(t *testing.T) *sealedHouse {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := &sealedHouse{T: t, rng: rand.New(rand.NewPCG(seed, 2)),
		writers: map[int64]*seal.Writer{}, latest: map[record.Key][]byte{},
		plain: map[record.Key]int64{}, corrects: true}
	def := seal.Definition{ID: 300, MaxRecords: 1e9, Fields: []seal.Field{{ID: 1, Name: "energy",
		Kind: seal.Number, Digits: 3, Max: 1e6, Sum: true, SumSquares: true,
		Trend:     &seal.Trend{OriginNs: 7, UnitNs: 3e9, MaxUnits: 1e9},
		Histogram: []int64{0, 1000}}}, Envelope: h.rng.IntN(2) == 0}
	if h.rng.IntN(2) == 0 {
		def.MAC = &seal.MAC{Scope: seal.OfTenant}
	}
	var err error
	if h.schema, err = seal.NewSchema(def); err != nil {
		t.Fatal(err)
	}
	var keys seal.MemoryKeyring
	keys.Generate(sealedTenant)
	if h.tenant, err = seal.OpenTenant(&keys, sealedTenant, h.schema); err != nil {
		t.Fatal(err)
	}
	h.n = openTest(t, Options{Dir: t.TempDir()})
	return h
}

func (h *sealedHouse) writer(mid int64) *seal.Writer {
	if h.writers[mid] == nil || h.rng.IntN(50) == 0 { // the meter starts again
		w, err := h.tenant.NewWriter(h.Context(), h.schema, mid, sealedMOID)
		if err != nil {
			h.Fatal(err)
		}
		h.writers[mid] = w
	}
	return h.writers[mid]
}

// send has meters send readings of the next hours, and correct some of earlier ones.
func (h *sealedHouse) send(from, to int64) {
	h.Helper()
	var b record.Batch
	for hour := from; hour < to; hour++ {
		for mid := range int64(20) {
			at := hour
			if h.corrects && h.rng.IntN(20) == 0 {
				at = h.rng.Int64N(hour + 1)
			}
			k := record.Key{CID: sealedTenant, MID: mid, MOID: sealedMOID, CapNs: at * 3600e9}
			v := h.rng.Int64N(3000) - 1000
			p, err := h.writer(mid).Append(nil, seal.Reading{CapNs: k.CapNs,
				Values: []seal.Value{{Number: v}}})
			if err != nil {
				h.Fatal(err)
			}
			b.Append(k, p)
			h.latest[k], h.plain[k] = p, v
		}
	}
	if _, err := h.n.Put(h.Context(), &b, store.WriterSeq{}); err != nil {
		h.Fatal(err)
	}
}

// layoutParams are the parameters of sealed-stats.
func layoutParams(layout string) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 8)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(layout)))
	out = append(out, layout...)
	return append(out, make([]byte, -len(layout)&7)...)
}

// TestSealedStats has the plugin add up sealed payloads in heads and segments, in groups, and
// compares each partial with one that was made here, and what it says with the plain readings.
func TestSealedStats(t *testing.T) {
	h := newSealedHouse(t)
	h.send(0, 300)
	if err := h.n.store.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.send(300, 400)
	for _, by := range []record.GroupBy{{}, {MID: true}, {MID: true, CapBucketNs: 86400e9},
		{CapBucketNs: 30 * 86400e9}} {
		from := h.rng.Int64N(400)
		q := &record.Query{Box: record.Box{record.CID: {record.At(sealedTenant)},
			record.Cap: {{From: from * 3600e9, To: (from + 1 + h.rng.Int64N(400)) * 3600e9}}},
			View: record.ViewLatest, GroupBy: by, Aggregate: record.PluginCall{
				Name: "sealed-stats", Params: layoutParams(h.schema.Layout())}}
		groups, _, err := h.n.Aggregate(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		readings := 0
		for _, g := range groups {
			readings += h.check(q, by, record.Key{MID: g.MID, CapNs: g.CapNs}, g.Result)
		}
		want := 0
		for k := range h.latest {
			if q.Box.Contains(k) {
				want++
			}
		}
		if readings != want {
			t.Errorf("%+v: %d readings in groups, want %d", by, readings, want)
		}
	}
}

// TestSealedStatsCached: a sum that is asked for again comes from cached states, and is the same,
// also when blocks are merged and readings corrected in between.
func TestSealedStatsCached(t *testing.T) {
	h := newSealedHouse(t)
	h.corrects = false // blocks with corrected readings are read each time
	h.send(0, 300)
	if err := h.n.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := record.Query{View: record.ViewLatest, Box: record.Box{record.MID: {{From: 2, To: 17}}},
		Aggregate: record.PluginCall{Name: "sealed-stats",
			Params: layoutParams(h.schema.Layout())}}
	for asked := range 5 {
		if asked == 4 {
			h.corrects = true
			h.send(300, 301)
		}
		mine := q
		groups, _, err := h.n.Aggregate(t.Context(), &mine)
		if err != nil || len(groups) != 1 {
			t.Fatal(len(groups), err)
		}
		n := h.check(&q, record.GroupBy{}, record.Key{}, groups[0].Result)
		if groups[0].Records != uint64(n) {
			t.Errorf("%d records, and the sum is of %d", groups[0].Records, n)
		}
		if st := h.n.partialCache.Stats(); asked == 3 && st.Hits == 0 {
			t.Errorf("no state was kept: %+v", st)
		}
	}
}

// check compares the partial of a group, and returns how many readings it has.
func (h *sealedHouse) check(q *record.Query, by record.GroupBy, key record.Key, got []byte) int {
	h.Helper()
	want, sum := seal.NewPartial(h.schema), int64(0)
	keys := make([]record.Key, 0, len(h.latest))
	for k := range h.latest {
		in := q.Box.Contains(k) && (!by.MID || k.MID == key.MID)
		if in && (by.CapBucketNs == 0 || k.CapNs/by.CapBucketNs*by.CapBucketNs == key.CapNs) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		if err := want.Add(k, h.latest[k]); err != nil {
			h.Fatal(err)
		}
		sum += h.plain[k]
	}
	p, err := seal.ParsePartial(h.schema, got)
	if err != nil {
		h.Fatal(err)
	}
	if !bytes.Equal(p.Append(nil), want.Append(nil)) {
		h.Fatalf("group %+v: the partial is\n%x, want\n%x", key, p.Append(nil), want.Append(nil))
	}
	sums, err := h.tenant.Decrypt(context.Background(), p, seal.Expect{})
	if err != nil {
		h.Fatal(err)
	}
	text, err := sums.Sum("energy")
	field := h.schema.Definition().Fields[0]
	if err != nil || text != field.Format(sum) {
		h.Fatalf("group %+v: the sum is %s, want %s, %v", key, text, field.Format(sum), err)
	}
	return len(keys)
}

// TestSealedStatsRefuses: what is not sealed, or by another schema, ends the query with a text that
// says so.
func TestSealedStatsRefuses(t *testing.T) {
	h := newSealedHouse(t)
	h.send(0, 3)
	b := &record.Batch{}
	b.Append(record.Key{CID: sealedTenant, MID: 1, MOID: sealedMOID + 1}, make([]byte, 300))
	if _, err := h.n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	layout := h.schema.Layout()
	for _, c := range []struct{ layout, want string }{
		{layout, "is not sealed by schema " + layout[:10]},
		{"301" + layout[3:], "sealed by schema " + layout[:10] + ", not sealed by schema 301:"},
		{"300:00a0ff" + layout[10:], "sealed by schema " + layout[:10] +
			", not sealed by schema 300:00a0ff: its definition was changed"},
		{"300:00A0ff" + layout[10:], "layout must be"},
		{layout[:9] + layout[10:], "layout must be"},
		{"", "layout must be"}, {"300", "layout must be"}, {layout + ",5", "layout must be"},
		{layout[:10] + " 24 0 8", "layout must be"}, {layout + " ", "layout must be"},
	} {
		q := &record.Query{Aggregate: record.PluginCall{Name: "sealed-stats",
			Params: layoutParams(c.layout)}}
		_, _, err := h.n.Aggregate(t.Context(), q)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("layout %q: %v, want one with %q", c.layout, err, c.want)
		}
	}
}
