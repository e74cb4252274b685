package node

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

const sealedHour = 3600e9

// sealedReading is a version of a reading, as its owner knows it.
type sealedReading struct {
	key    record.Key // with its acq
	amount int64
	state  string
	level  int64
	tomb   bool
}

// taggedHouse is a node with readings that have order and equality tags, and who knows all of them.
type taggedHouse struct {
	*testing.T
	n       *Node
	rng     *rand.Rand
	keys    seal.MemoryKeyring
	schema  *seal.Schema
	tenant  *seal.Tenant
	writers map[int64]*seal.Writer
	all     []sealedReading // in the order in which they were written
}

func newTaggedHouse(t *testing.T, rng *rand.Rand) *taggedHouse {
	h := &taggedHouse{T: t, rng: rng, writers: map[int64]*seal.Writer{}}
	scopes := []seal.Scope{seal.OfDevice, seal.OfTenant}
	def := seal.Definition{ID: uint16(rng.IntN(1 << 16)), MaxRecords: 1e6, Envelope: true,
		Fields: []seal.Field{
			{ID: 1, Name: "amount", Kind: seal.Number, Max: 1000, Sum: true,
				SumSquares: rng.IntN(2) == 0,
				Order:      &seal.Order{AcknowledgeLeakage: true, Scope: scopes[rng.IntN(2)]}},
			{ID: 2, Name: "state", Kind: seal.Text, Equal: &seal.Equal{Scope: scopes[rng.IntN(2)],
				PeriodNs: rng.Int64N(2) * 5 * sealedHour}},
			{ID: 3, Name: "level", Kind: seal.Number, Max: 5, Sum: true, Equal: &seal.Equal{},
				Order: &seal.Order{AcknowledgeLeakage: true, Low: -3, Width: 2, Buckets: 4}}}}
	if rng.IntN(2) == 0 {
		def.Fields[0].Max = 1 << 40 // tags of 16 bytes
	}
	if rng.IntN(2) == 0 {
		def.MAC = &seal.MAC{Scope: seal.OfTenant}
	}
	var err error
	if h.schema, err = seal.NewSchema(def); err != nil {
		t.Fatal(err)
	}
	h.keys.Generate(sealedTenant)
	if h.tenant, err = seal.OpenTenant(&h.keys, sealedTenant, h.schema); err != nil {
		t.Fatal(err)
	}
	h.n = openTest(t, Options{})
	return h
}

const taggedMeters = 4

// send stores readings of random hours, so that many are late or correct others, and some are
// deleted.
func (h *taggedHouse) send(n int) {
	h.Helper()
	var b record.Batch
	from := len(h.all)
	for range n {
		r := sealedReading{key: record.Key{CID: sealedTenant, MID: h.rng.Int64N(taggedMeters),
			MOID: sealedMOID, CapNs: h.rng.Int64N(48) * sealedHour},
			amount: h.rng.Int64N(41) - 20, state: []string{"", "on", "off"}[h.rng.IntN(3)],
			level: h.rng.Int64N(11) - 5, tomb: h.rng.IntN(12) == 0}
		var payload []byte
		if !r.tomb {
			payload = h.seal(&r)
		}
		b.AppendRecord(record.Record{Key: r.key, Payload: payload, Tomb: r.tomb})
		h.all = append(h.all, r)
	}
	result, err := h.n.Put(h.Context(), &b, store.WriterSeq{})
	if err != nil {
		h.Fatal(err)
	}
	for i := range h.all[from:] {
		h.all[from+i].key.AcqNs = result.FirstAcqNs + int64(i)
	}
}

func (h *taggedHouse) seal(r *sealedReading) []byte {
	w := h.writers[r.key.MID]
	if w == nil || h.rng.IntN(20) == 0 {
		var err error
		if w, err = h.tenant.NewWriter(h.Context(), h.schema, r.key.MID, r.key.MOID); err != nil {
			h.Fatal(err)
		}
		h.writers[r.key.MID] = w
	}
	burnt := 1 + h.rng.IntN(2) // a payload that is lost leaves a gap
	var payload []byte
	for range burnt {
		var err error
		payload, err = w.Append(nil, seal.Reading{CapNs: r.key.CapNs, Values: []seal.Value{
			{Number: r.amount}, {Text: r.state}, {Number: r.level}}})
		if err != nil {
			h.Fatal(err)
		}
	}
	return payload
}

// sees returns the readings that a view as of an acq has, of caps below an hour.
func (h *taggedHouse) sees(asOf int64, below int64) (out []sealedReading) {
	newest := map[record.Key]sealedReading{}
	for _, r := range h.all {
		if place := (record.Key{MID: r.key.MID, CapNs: r.key.CapNs}); r.key.AcqNs < asOf &&
			r.key.CapNs < below {
			newest[place] = r
		}
	}
	for _, r := range newest {
		if !r.tomb {
			out = append(out, r)
		}
	}
	return out
}

// textParams are the parameters of a plugin of which the first is a text.
func textParams(text string, others ...uint64) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(8*(1+len(others))))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	for _, v := range others {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return append(append(out, text...), make([]byte, -len(text)&7)...)
}

// choose adds a random filter to a query, and returns what it keeps.
func (h *taggedHouse) choose(q *record.Query, during seal.Period) func(*sealedReading) bool {
	h.Helper()
	var meters []seal.Series
	for mid := range int64(taggedMeters) {
		meters = append(meters, seal.Series{MID: mid, MOID: sealedMOID})
	}
	ctx, name, token, err := h.Context(), "sealed-range", "", error(nil)
	var keeps func(*sealedReading) bool
	switch h.rng.IntN(4) {
	case 0:
		r := seal.Range{Low: h.rng.Int64N(31) - 20, High: 20}
		r.High = r.Low + h.rng.Int64N(20)
		if h.rng.IntN(3) == 0 {
			r.Low = seal.Everything.Low
		}
		token, err = h.tenant.RangeToken(ctx, h.schema, "amount", r, meters...)
		keeps = func(x *sealedReading) bool { return x.amount >= r.Low && x.amount <= r.High }
	case 1: // of buckets of two, which begin at -3
		low := -1 + 2*h.rng.Int64N(3)
		token, err = h.tenant.RangeToken(ctx, h.schema, "level", seal.Range{Low: low,
			High: seal.Everything.High}, meters...)
		keeps = func(x *sealedReading) bool { return x.level >= low }
	case 2:
		name = "sealed-equal"
		state := []string{"", "on", "off", "none"}[h.rng.IntN(4)]
		token, err = h.tenant.EqualToken(ctx, h.schema, "state", seal.Value{Text: state}, during,
			meters...)
		keeps = func(x *sealedReading) bool { return x.state == state }
	case 3:
		name = "sealed-equal"
		level := h.rng.Int64N(11) - 5
		token, err = h.tenant.EqualToken(ctx, h.schema, "level", seal.Value{Number: level}, during,
			meters...)
		keeps = func(x *sealedReading) bool { return x.level == level }
	}
	if err != nil {
		h.Fatal(err)
	}
	q.Filters = append(q.Filters, record.PluginCall{Name: name, Params: textParams(token)})
	return keeps
}

// amounts are plain sums by the group of a query and a value.
type amounts map[string][2]int64

func (a amounts) add(key string, count, sum int64) {
	a[key] = [2]int64{a[key][0] + count, a[key][1] + sum}
}

// TestSealedTags: for random schemas, corrections, deletions, late readings, keys, filters, groups
// and views, what the owner decrypts is what he computes from plain readings.
func TestSealedTags(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 2 {
		h := newTaggedHouse(t, rng)
		h.send(150)
		if err := h.n.store.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.keys.Generate(sealedTenant)
		h.writers = map[int64]*seal.Writer{}
		h.send(100)
		for range 30 {
			h.ask()
		}
	}
}

// ask asks one random question.
func (h *taggedHouse) ask() {
	h.Helper()
	during := seal.Period{ToNs: (1 + h.rng.Int64N(48)) * sealedHour}
	q := &record.Query{Box: record.Box{record.CID: {record.At(sealedTenant)},
		record.Cap: {{From: 0, To: during.ToNs - 1}}}, View: record.ViewLatest,
		GroupBy: []record.GroupBy{{}, {MID: true}, {MID: true, CapBucketNs: 24 * sealedHour},
			{CapBucketNs: 7 * sealedHour}}[h.rng.IntN(4)]}
	asOf := h.all[len(h.all)-1].key.AcqNs + 1
	if h.rng.IntN(2) == 0 {
		asOf = h.all[h.rng.IntN(len(h.all))].key.AcqNs
		q.View, q.AsOfAcqNs = record.ViewAsOf, asOf
	}
	keeps := []func(*sealedReading) bool{}
	for range h.rng.IntN(3) {
		keeps = append(keeps, h.choose(q, during))
	}
	by := []string{"", "state", "level"}[h.rng.IntN(3)]
	h.setAggregate(q, by)
	want := amounts{}
	for _, r := range h.sees(asOf, during.ToNs) {
		kept := !slices.ContainsFunc(keeps, func(k func(*sealedReading) bool) bool {
			return !k(&r)
		})
		if kept {
			value := map[string]string{"state": r.state, "level": fmt.Sprint(r.level)}[by]
			want.add(groupName(q.GroupBy, r.key.MID, r.key.CapNs, value), 1, r.amount)
		}
	}
	groups, _, err := h.n.Aggregate(h.Context(), q)
	if err != nil {
		h.Fatalf("%+v: %v", q, err)
	}
	got := amounts{}
	for _, g := range groups {
		h.read(by, g.Result, func(value string, count, sum int64) {
			got.add(groupName(q.GroupBy, g.MID, g.CapNs, value), count, sum)
		})
	}
	if len(got) != len(want) {
		h.Errorf("%d groups, want %d", len(got), len(want))
	}
	for key, w := range want {
		if got[key] != w {
			h.Fatalf("%+v by %q, group %s: count and sum are %v, want %v", q, by, key, got[key], w)
		}
	}
}

func (h *taggedHouse) setAggregate(q *record.Query, by string) {
	h.Helper()
	q.Aggregate = record.PluginCall{Name: "sealed-stats", Params: textParams(h.schema.Layout())}
	if by == "" {
		return
	}
	at, err := h.schema.TagOffset(by)
	if err != nil {
		h.Fatal(err)
	}
	q.Aggregate = record.PluginCall{Name: "sealed-group",
		Params: textParams(h.schema.Layout(), uint64(at))}
}

func groupName(by record.GroupBy, mid, capNs int64, value string) string {
	if !by.MID {
		mid = 0
	}
	if capNs = capNs / cmp.Or(by.CapBucketNs, 1) * by.CapBucketNs; by.CapBucketNs == 0 {
		capNs = 0
	}
	return fmt.Sprintf("%d %d %q", mid, capNs/sealedHour, value)
}

// read decrypts the result of a group of a query.
func (h *taggedHouse) read(by string, result []byte, visit func(value string, count, sum int64)) {
	h.Helper()
	ctx := context.Background()
	one := func(value string, p *seal.Partial) {
		sums, err := h.tenant.Decrypt(ctx, p, seal.Expect{})
		if err != nil {
			h.Fatal(err)
		}
		text, err := sums.Sum("amount")
		var sum int64
		if _, scanErr := fmt.Sscan(text, &sum); err != nil || scanErr != nil {
			h.Fatal(err, scanErr)
		}
		visit(value, int64(sums.Count()), sum)
	}
	if by == "" {
		p, err := seal.ParsePartial(h.schema, result)
		if err != nil {
			h.Fatal(err)
		}
		one("", p)
		return
	}
	groups, err := seal.ParseGroups(h.schema, result)
	if err != nil {
		h.Fatal(err)
	}
	values, err := h.tenant.OpenGroups(ctx, h.schema, by, groups)
	if err != nil {
		h.Fatal(err)
	}
	for _, v := range values {
		name := v.Value.Text
		if by == "level" {
			name = fmt.Sprint(v.Value.Number)
		}
		one(name, v.Partial)
	}
}
