package real

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

const (
	day        = int64(24 * time.Hour)
	firstMOID  = 100
	valueDigit = 1000 // a unit is the third digit of a value
)

// owner has the readings of a set, and the keys; the node has neither.
type owner struct {
	*testing.T
	n       *node.Node
	rng     *rand.Rand
	cid     int32
	zone    *time.Location
	schema  *seal.Schema
	tenant  *seal.Tenant
	writers map[record.Key]*seal.Writer
	mids    map[string]int64
	batch   record.Batch
	latest  map[record.Key]plain
	caps    [2]int64 // the first and the last
}

// plain is what a reading says.
type plain struct{ units, weekday int64 }

// TestSealedRealData seals the readings of every set, with corrections and deletions, and compares
// what the owner decrypts of the node's sums, by device, day, month and weekday, in ranges of time
// and of values, with what he adds up himself.
func TestSealedRealData(t *testing.T) {
	if _, err := os.Stat(dataDir); err != nil {
		required.Skip(t, required.Data, "the public data sets are not in ../shared/data")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for i, s := range sets() {
		zone, err := time.LoadLocation(s.zone)
		if err != nil {
			t.Fatal(err)
		}
		o := newOwner(t, n, rng, int32(i+1))
		o.zone = zone
		left := rounds.Of(1_000_000, 60_000, 10_000)
		for r, err := range s.read(dataDir+"/"+s.folder, zone) {
			if err != nil {
				t.Fatal(err)
			}
			o.put(&r)
			if left--; left == 0 {
				break
			}
		}
		o.correct()
		if err := n.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			o.ask()
		}
	}
}

func newOwner(t *testing.T, n *node.Node, rng *rand.Rand, cid int32) *owner {
	t.Helper()
	o := &owner{T: t, n: n, rng: rng, cid: cid, writers: map[record.Key]*seal.Writer{},
		mids: map[string]int64{}, latest: map[record.Key]plain{},
		caps: [2]int64{math.MaxInt64, math.MinInt64}}
	def := seal.Definition{ID: uint16(cid), MaxRecords: 1e9, Envelope: rng.IntN(2) == 0,
		Fields: []seal.Field{{ID: 1, Name: "value", Kind: seal.Number, Digits: 3, Max: 1 << 44,
			Sum: true, SumSquares: rng.IntN(2) == 0, Order: &seal.Order{AcknowledgeLeakage: true}},
			{ID: 2, Name: "weekday", Kind: seal.Number, Max: 6, Sum: true, Equal: &seal.Equal{}}}}
	if rng.IntN(2) == 0 {
		def.MAC = &seal.MAC{Scope: seal.OfTenant}
	}
	var err error
	if o.schema, err = seal.NewSchema(def); err != nil {
		t.Fatal(err)
	}
	var keys seal.MemoryKeyring
	keys.Generate(cid)
	if o.tenant, err = seal.OpenTenant(&keys, cid, o.schema); err != nil {
		t.Fatal(err)
	}
	return o
}

// put seals a reading.
func (o *owner) put(r *reading) {
	o.Helper()
	mid, ok := o.mids[r.device]
	if !ok {
		mid = int64(len(o.mids))
		o.mids[r.device] = mid
	}
	units := int64(math.Round(r.value * valueDigit))
	k := record.Key{CID: o.cid, MID: mid, MOID: firstMOID + r.quantity, CapNs: r.capNs}
	o.seal(k, plain{units, int64(time.Unix(0, r.capNs).UTC().Weekday())})
	o.caps = [2]int64{min(o.caps[0], r.capNs), max(o.caps[1], r.capNs)}
}

func (o *owner) seal(k record.Key, v plain) {
	o.Helper()
	series := record.Key{MID: k.MID, MOID: k.MOID}
	w := o.writers[series]
	if w == nil {
		var err error
		if w, err = o.tenant.NewWriter(o.Context(), o.schema, k.MID, k.MOID); err != nil {
			o.Fatal(err)
		}
		o.writers[series] = w
	}
	p, err := w.Append(nil, seal.Reading{CapNs: k.CapNs, Values: []seal.Value{{Number: v.units},
		{Number: v.weekday}}})
	if err != nil {
		o.Fatal(err)
	}
	o.latest[k] = v
	o.batch.Append(k, p)
	if o.batch.Len() == 10_000 {
		o.flush()
	}
}

func (o *owner) flush() {
	o.Helper()
	if _, err := o.n.Put(o.Context(), &o.batch, store.WriterSeq{}); err != nil {
		o.Fatal(err)
	}
	o.batch = record.Batch{}
}

// correct gives some readings other values, and deletes some.
func (o *owner) correct() {
	o.Helper()
	var all []record.Key
	for k := range o.latest {
		if all = append(all, k); len(all) == 2000 {
			break
		}
	}
	for i, k := range all {
		if i%10 == 0 {
			o.batch.AppendRecord(record.Record{Key: k, Tomb: true})
			delete(o.latest, k)
			continue
		}
		o.seal(k, plain{o.latest[k].units + int64(i), o.latest[k].weekday})
	}
	o.flush()
}

// ask asks one random question.
func (o *owner) ask() {
	o.Helper()
	from := o.caps[0] + o.rng.Int64N(o.caps[1]-o.caps[0]+1)
	to := min(from+day+o.rng.Int64N(60*day), o.caps[1]) + 1
	first := o.rng.Int64N(int64(len(o.mids)))
	last := min(first+o.rng.Int64N(40), int64(len(o.mids))-1)
	month := record.Window{Unit: record.WindowMonth, N: 1, Zone: o.zone.String()}
	q := &record.Query{View: record.ViewLatest, Box: record.Box{
		record.CID: {record.At(int64(o.cid))}, record.MID: {{From: first, To: last + 1}},
		record.Cap: {{From: from, To: to}}}, GroupBy: []record.GroupBy{{}, {MID: true},
		{CapBucketNs: day}, {MID: true, CapBucketNs: 7 * day}, {Window: month}}[o.rng.IntN(5)]}
	for k := range o.latest { // a MAC has the scope of a quantity
		if o.schema.Definition().MAC != nil || o.rng.IntN(2) == 0 {
			q.Box[record.MOID] = record.RangeSet{record.At(int64(k.MOID))}
		}
		break
	}
	keeps := func(plain) bool { return true }
	if o.rng.IntN(2) == 0 {
		keeps = o.filter(q, first, last)
	}
	byDay := o.rng.IntN(2) == 0
	q.Aggregate = record.PluginCall{Name: "sealed-stats", Params: params(o.schema.Layout())}
	if byDay {
		at, err := o.schema.TagOffset("weekday")
		if err != nil {
			o.Fatal(err)
		}
		q.Aggregate = record.PluginCall{Name: "sealed-group",
			Params: params(o.schema.Layout(), uint64(at))}
	}
	want := map[string][2]int64{}
	add := func(to map[string][2]int64, mid, capNs, weekday, count, sum int64) {
		if !q.GroupBy.MID {
			mid = 0
		}
		capNs = o.bucket(q.GroupBy, capNs)
		if !byDay {
			weekday = 0
		}
		key := fmt.Sprint(mid, " ", capNs, " ", weekday)
		to[key] = [2]int64{to[key][0] + count, to[key][1] + sum}
	}
	for k, v := range o.latest {
		if q.Box.Contains(k) && keeps(v) {
			add(want, k.MID, k.CapNs, v.weekday, 1, v.units)
		}
	}
	groups, _, err := o.n.Aggregate(o.Context(), q)
	if err != nil {
		o.Fatalf("%+v: %v", q, err)
	}
	got := map[string][2]int64{}
	for _, g := range groups {
		for weekday, p := range o.partials(byDay, g.Result) {
			if count, sum := o.decrypt(p); count > 0 {
				add(got, g.MID, g.CapNs, weekday, count, sum)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		o.Errorf("tenant %d, %+v: counts and sums are %v, want %v", o.cid, q, got, want)
	}
}

// bucket is where the bucket or month of a time begins.
func (o *owner) bucket(by record.GroupBy, capNs int64) int64 {
	switch {
	case by.CapBucketNs > 0:
		return capNs / by.CapBucketNs * by.CapBucketNs // of times after 1970
	case by.Window.N > 0:
		at := time.Unix(0, capNs).In(o.zone)
		return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, o.zone).UnixNano()
	}
	return 0
}

// filter selects by a range or a weekday, and returns what it keeps.
func (o *owner) filter(q *record.Query, first, last int64) func(plain) bool {
	o.Helper()
	var series []seal.Series
	for k := range o.writers {
		if k.MID >= first && k.MID <= last {
			series = append(series, seal.Series{MID: k.MID, MOID: k.MOID})
		}
	}
	ctx := o.Context()
	if o.rng.IntN(2) == 0 {
		weekday := o.rng.Int64N(7)
		token, err := o.tenant.EqualToken(ctx, o.schema, "weekday", seal.Value{Number: weekday},
			seal.Period{}, series...)
		if err != nil {
			o.Fatal(err)
		}
		q.Filters = []record.PluginCall{{Name: "sealed-equal", Params: params(token)}}
		return func(v plain) bool { return v.weekday == weekday }
	}
	r := seal.Everything
	for _, v := range o.latest { // a random one
		r.Low = v.units
		break
	}
	token, err := o.tenant.RangeToken(ctx, o.schema, "value", r, series...)
	if err != nil {
		o.Fatal(err)
	}
	q.Filters = []record.PluginCall{{Name: "sealed-range", Params: params(token)}}
	return func(v plain) bool { return v.units >= r.Low }
}

// partials are the sums in a result, by weekday if they are.
func (o *owner) partials(byDay bool, result []byte) map[int64]*seal.Partial {
	o.Helper()
	if !byDay {
		p, err := seal.ParsePartial(o.schema, result)
		if err != nil {
			o.Fatal(err)
		}
		return map[int64]*seal.Partial{0: p}
	}
	groups, err := seal.ParseGroups(o.schema, result)
	if err != nil {
		o.Fatal(err)
	}
	values, err := o.tenant.OpenGroups(o.Context(), o.schema, "weekday", groups)
	if err != nil {
		o.Fatal(err)
	}
	out := map[int64]*seal.Partial{}
	for _, v := range values {
		out[v.Value.Number] = v.Partial
	}
	return out
}

func (o *owner) decrypt(p *seal.Partial) (count, sum int64) {
	o.Helper()
	sums, err := o.tenant.Decrypt(o.Context(), p, seal.Expect{RequireMAC: o.schema.Definition().
		MAC != nil && p.Count() > 0})
	if err != nil {
		o.Fatal(err)
	}
	text, err := sums.Sum("value")
	if err != nil {
		o.Fatal(err)
	}
	field := o.schema.Definition().Fields[0]
	if sum, err = field.Parse(text); err != nil {
		o.Fatal(err)
	}
	return int64(sums.Count()), sum
}

// params are parameters of which the first is a text.
func params(text string, others ...uint64) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(8*(1+len(others))))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	for _, v := range others {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return append(append(out, text...), make([]byte, -len(text)&7)...)
}
