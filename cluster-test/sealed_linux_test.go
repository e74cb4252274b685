package cluster_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	sealedCID    = 7
	sealedMOID   = 9
	sealedMeters = 40
	sealedHour   = int64(time.Hour)
)

// meters are devices whose readings are sealed in this process, which alone has their keys.
type meters struct {
	*farm
	rng     *rand.Rand
	keys    *seal.MemoryKeyring
	schema  *seal.Schema
	tenant  *seal.Tenant
	writers map[int64]*seal.Writer
	seq     uint64
	lastNs  int64 // the greatest acq of what was acknowledged
	latest  map[record.Key]meterReading
}

type meterReading struct {
	amount, state int64
	payload       []byte
}

// TestSealedOverAFailOver writes sealed readings into a cluster, corrects and deletes some, and
// kills a node in the middle. With two nodes and again with three, what the owner decrypts of sums,
// ranges, values and windows is what he adds up himself. In the end no node has a key: neither its
// directory, its log and its metrics, nor its memory.
func TestSealedOverAFailOver(t *testing.T) {
	t.Parallel() // it waits most of the time
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := emptyFarm(t, build(t))
	for i := range 3 {
		f.nodes = append(f.nodes, f.newMachine(i))
		f.nodes[i].onLoopback(t)
	}
	f.startAll()
	m := newMeters(f, rand.New(rand.NewPCG(seed, 6)))
	for range 4 {
		m.send(500)
	}
	lost := m.rng.IntN(len(m.nodes))
	var wg sync.WaitGroup
	b := m.readings(500)
	wg.Go(func() { m.put(b) })
	m.note("kill -9 of node %d in the midst of a put", lost)
	m.nodes[lost].kill()
	wg.Wait()
	m.keys.Generate(sealedCID) // what follows is under another key
	clear(m.writers)
	m.send(500)
	for range 6 {
		m.ask((lost + 1 + m.rng.IntN(2)) % 3)
	}
	m.start(lost)
	m.until("the cluster is well", m.settled)
	m.send(500)
	for i := range 9 {
		m.ask(i % 3)
	}
	m.searchNodes()
}

func newMeters(f *farm, rng *rand.Rand) *meters {
	f.Helper()
	m := &meters{farm: f, rng: rng, keys: &seal.MemoryKeyring{},
		latest: map[record.Key]meterReading{}, writers: map[int64]*seal.Writer{}}
	var err error
	m.schema, err = seal.NewSchema(seal.Definition{ID: 12, MaxRecords: 1e9, Envelope: true,
		MAC: &seal.MAC{Scope: seal.OfTenant}, Fields: []seal.Field{
			{ID: 1, Name: "amount", Kind: seal.Number, Max: 1e6, Sum: true, SumSquares: true,
				Order: &seal.Order{AcknowledgeLeakage: true}},
			{ID: 2, Name: "state", Kind: seal.Number, Max: 3, Sum: true,
				Equal: &seal.Equal{Scope: seal.OfTenant}}}})
	if err != nil {
		f.Fatal(err)
	}
	m.keys.Generate(sealedCID)
	if m.tenant, err = seal.OpenTenant(m.keys, sealedCID, m.schema); err != nil {
		f.Fatal(err)
	}
	return m
}

// readings seals n readings of random hours, so that many are late or correct others, and deletes
// some.
func (m *meters) readings(n int) *record.Batch {
	m.Helper()
	b := &record.Batch{}
	for range n {
		k := record.Key{CID: sealedCID, MID: m.rng.Int64N(sealedMeters), MOID: sealedMOID,
			CapNs: m.rng.Int64N(24*60) * sealedHour}
		if m.rng.IntN(20) == 0 {
			b.AppendRecord(record.Record{Key: k, Tomb: true})
			delete(m.latest, k)
			continue
		}
		w := m.writers[k.MID]
		if w == nil {
			var err error
			if w, err = m.tenant.NewWriter(m.Context(), m.schema, k.MID, k.MOID); err != nil {
				m.Fatal(err)
			}
			m.writers[k.MID] = w
		}
		r := meterReading{amount: m.rng.Int64N(2001) - 1000, state: m.rng.Int64N(4)}
		var err error
		if r.payload, err = w.Append(nil, seal.Reading{CapNs: k.CapNs, Values: []seal.Value{
			{Number: r.amount}, {Number: r.state}}}); err != nil {
			m.Fatal(err)
		}
		m.latest[k] = r
		b.Append(k, r.payload)
	}
	return b
}

func (m *meters) send(n int) {
	m.Helper()
	m.put(m.readings(n))
}

// put sends a batch, the same bytes again and again, to one node after the other until it is
// acknowledged.
func (m *meters) put(b *record.Batch) {
	m.Helper()
	m.seq++
	to := m.rng.IntN(len(m.nodes))
	m.until("a put is answered", func() bool {
		c := m.client(to)
		defer func() { _ = c.Close() }()
		to = (to + 1) % len(m.nodes)
		ctx, cancel := short(context.Background())
		defer cancel()
		reply, err := c.Put(ctx, b, [16]byte{0xe1}, m.seq)
		m.lastNs = max(m.lastNs, reply.LastAcqNs)
		return err == nil
	})
}

// ask asks a node one random question.
func (m *meters) ask(node int) {
	m.Helper()
	from := m.rng.Int64N(20*60) * sealedHour
	q := &record.Query{View: record.ViewLatest, Box: record.Box{
		record.CID: {record.At(sealedCID)}, record.Cap: {{From: from, To: 24 * 60 * sealedHour}}},
		GroupBy:   []record.GroupBy{{}, {MID: true}, {CapBucketNs: 24 * sealedHour}}[m.rng.IntN(3)],
		Aggregate: record.PluginCall{Name: "sealed-stats", Params: textOf(m.schema.Layout())}}
	byState := m.rng.IntN(3) == 0
	if byState {
		at, err := m.schema.TagOffset("state")
		if err != nil {
			m.Fatal(err)
		}
		q.Aggregate = record.PluginCall{Name: "sealed-group",
			Params: textOf(m.schema.Layout(), uint64(at))}
	}
	keeps := m.filter(q)
	want := map[string][2]int64{}
	for k, r := range m.latest {
		if q.Box.Contains(k) && keeps(&r) {
			count(want, q.GroupBy, k, byState, r.state, 1, r.amount)
		}
	}
	var groups []wire.Group
	m.until("a question is answered as of the last put", func() bool {
		c := m.client(node)
		defer func() { _ = c.Close() }()
		ctx, cancel := short(m.Context())
		defer cancel()
		all, end, err := c.Aggregate(ctx, q)
		groups = all
		return err == nil && end.HorizonNs > m.lastNs
	})
	got := map[string][2]int64{}
	for _, g := range groups {
		for state, p := range m.partials(byState, g.Result) {
			if n, sum := m.decrypt(p); n > 0 {
				k := record.Key{MID: g.MID, CapNs: g.CapNs}
				count(got, q.GroupBy, k, byState, state, n, sum)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.fatal("node %d, %+v: counts and sums are %v, want %v", node, q, got, want)
	}
}

// count adds a count and a sum to those of a group.
func count(to map[string][2]int64, by record.GroupBy, k record.Key, byState bool, state, n,
	sum int64) {
	name := ""
	if by.MID {
		name = fmt.Sprint("mid ", k.MID)
	}
	if by.CapBucketNs > 0 {
		name = fmt.Sprint("day ", k.CapNs/by.CapBucketNs)
	}
	if byState {
		name += fmt.Sprint(" state ", state)
	}
	to[name] = [2]int64{to[name][0] + n, to[name][1] + sum}
}

// filter selects nothing, a range or a value, and returns what it keeps.
func (m *meters) filter(q *record.Query) func(*meterReading) bool {
	m.Helper()
	var series []seal.Series
	for mid := range int64(sealedMeters) {
		series = append(series, seal.Series{MID: mid, MOID: sealedMOID})
	}
	name, token, err := "sealed-range", "", error(nil)
	low, state := m.rng.Int64N(1000)-500, m.rng.Int64N(4)
	keeps := func(r *meterReading) bool { return r.amount >= low && r.amount <= 500 }
	switch m.rng.IntN(3) {
	case 0:
		return func(*meterReading) bool { return true }
	case 1:
		token, err = m.tenant.RangeToken(m.Context(), m.schema, "amount",
			seal.Range{Low: low, High: 500}, series...)
	case 2:
		name, keeps = "sealed-equal", func(r *meterReading) bool { return r.state == state }
		token, err = m.tenant.EqualToken(m.Context(), m.schema, "state", seal.Value{Number: state},
			seal.Period{}, series...)
	}
	if err != nil {
		m.Fatal(err)
	}
	q.Filters = []record.PluginCall{{Name: name, Params: textOf(token)}}
	return keeps
}

// partials are the sums in a result, by state if they are.
func (m *meters) partials(byState bool, result []byte) map[int64]*seal.Partial {
	m.Helper()
	if !byState {
		p, err := seal.ParsePartial(m.schema, result)
		if err != nil {
			m.Fatal(err)
		}
		return map[int64]*seal.Partial{0: p}
	}
	groups, err := seal.ParseGroups(m.schema, result)
	if err != nil {
		m.Fatal(err)
	}
	values, err := m.tenant.OpenGroups(m.Context(), m.schema, "state", groups)
	if err != nil {
		m.Fatal(err)
	}
	out := map[int64]*seal.Partial{}
	for _, v := range values {
		out[v.Value.Number] = v.Partial
	}
	return out
}

func (m *meters) decrypt(p *seal.Partial) (n, sum int64) {
	m.Helper()
	sums, err := m.tenant.Decrypt(m.Context(), p, seal.Expect{}) // of two keys
	if err != nil {
		m.Fatal(err)
	}
	text, err := sums.Sum("amount")
	if err != nil {
		m.Fatal(err)
	}
	if sum, err = m.schema.Definition().Fields[0].Parse(text); err != nil {
		m.Fatal(err)
	}
	return int64(sums.Count()), sum
}

// textOf are parameters of a plugin of which the first is a text.
func textOf(text string, others ...uint64) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(8*(1+len(others))))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	for _, v := range others {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return append(slices.Concat(out, []byte(text)), make([]byte, -len(text)&7)...)
}
