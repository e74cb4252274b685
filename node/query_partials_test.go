package node

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// meterHouse is a node with meters whose numbers are fractions, so that sums show in which order
// they were added, and what happens to its data.
type meterHouse struct {
	*testing.T
	n    *Node
	rng  *rand.Rand
	hour int64 // up to which all meters have sent

	moments []int64 // acqs, some of them below the horizon at the start
}

const houseMeters = 120

func (h *meterHouse) put(b *record.Batch) {
	h.Helper()
	if _, err := h.n.Put(h.Context(), b, store.WriterSeq{}); err != nil {
		h.Fatal(err)
	}
}

func (h *meterHouse) reading(b *record.Batch, mid, hour int64) {
	b.Append(record.Key{CID: int32(mid % 2), MID: mid, MOID: int32(mid % 3), CapNs: hour * 1e9},
		append(f64(h.rng.NormFloat64()*1e3), f64(h.rng.Float64())...))
}

// send has all meters send their next readings.
func (h *meterHouse) send(rows int) {
	for rows > 0 {
		var b record.Batch
		for ; rows > 0 && b.Len()+houseMeters <= record.MaxBatchRecords; rows -= houseMeters {
			for mid := range int64(houseMeters) {
				h.reading(&b, mid, h.hour)
			}
			h.hour++
		}
		h.put(&b)
	}
}

// happen changes the data in one of many ways.
func (h *meterHouse) happen() string {
	h.Helper()
	from := h.rng.Int64N(houseMeters)
	box := record.Box{record.MID: {{From: from, To: from + 1 + h.rng.Int64N(4)}},
		record.Cap: {{From: h.rng.Int64N(h.hour) * 1e9, To: h.hour * 1e9}}}
	var err error
	what := [...]string{"send", "correct", "correct many", "delete", "erase", "purge", "seal",
		"below", "rest", "expire"}[h.rng.IntN(10)]
	var b record.Batch
	switch what {
	case "send":
		h.send(1 + h.rng.IntN(30_000))
	case "correct", "correct many":
		for range 1 + h.rng.IntN(map[string]int{"correct": 5, "correct many": 3000}[what]) {
			h.reading(&b, h.rng.Int64N(houseMeters), h.rng.Int64N(h.hour))
		}
		h.put(&b)
	case "delete":
		b.AppendTomb(record.Key{CID: int32(from % 2), MID: from, MOID: int32(from % 3),
			CapNs: h.rng.Int64N(h.hour) * 1e9})
		h.put(&b)
	case "erase":
		_, err = h.n.Erase(h.Context(), box)
	case "purge":
		_, err = h.n.Purge(h.Context(), box)
	case "below":
		for i := range int64(1 + h.rng.IntN(3)) {
			h.reading(&b, h.rng.Int64N(houseMeters), h.rng.Int64N(h.hour))
			b.AcqNs = append(b.AcqNs, 1e15+h.rng.Int64N(1e15)+i)
		}
		_, err = h.n.store.PutBackdated(h.Context(), &b)
	case "rest":
		err = h.n.store.MergeIdle(h.Context())
	case "expire":
		moid := int32(h.rng.IntN(3))
		err = h.n.SetRetention(h.Context(), retention.Rule{MOID: &moid,
			MaxCapAgeNs: time.Now().UnixNano() - h.rng.Int64N(h.hour/4)*1e9})
	}
	h.note()
	if err == nil && (what == "seal" || h.rng.IntN(2) == 0) {
		err = h.n.store.Seal(h.Context())
	}
	if err == nil && h.rng.IntN(2) == 0 {
		err = h.n.store.WaitForMerges(h.Context())
	}
	if err != nil {
		h.Fatalf("%s: %v", what, err)
	}
	return what
}

// note notes a moment, between what happened and what comes.
func (h *meterHouse) note() {
	h.Helper()
	horizon, err := h.n.store.ExtendHorizon(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	h.moments = append(h.moments, horizon)
}

// vary makes a query one of a kind that comes again with slightly other bounds.
func (h *meterHouse) vary(q *record.Query, kind int) {
	moment := h.moments[max(0, len(h.moments)-h.rng.IntN(4)-1)]
	switch kind {
	case 0:
		q.View, q.AsOfAcqNs = record.ViewAsOf, moment
	case 1:
		q.View, q.Last = record.ViewLatest, 1+h.rng.Uint32N(200)
	case 2:
		q.Box[record.Acq] = record.RangeSet{{From: moment, To: math.MaxInt64}}
	case 3, 4:
		q.Box[record.Acq] = record.RangeSet{{From: 0, To: moment}}
	case 5, 6:
		from := h.rng.Int64N(3)
		q.Box[record.MID] = record.RangeSet{{From: from, To: 70 + h.rng.Int64N(3)}}
		if kind == 5 {
			q.Box[record.Cap] = record.RangeSet{{From: 0, To: (h.hour/2 + from) * 1e9}}
		}
	}
}

// queries are such as dashboards ask: boxes, views and plugins that come again and again.
func (h *meterHouse) queries() (all []*record.Query) {
	var calls []record.PluginCall
	for _, c := range [][2]string{{"stats", ""}, {"stats", "offset=8"}, {"count", ""},
		{"first-last", ""}, {"downsample", ""}, {"rate-of-change", ""}, {"distinct", ""},
		{"histogram", "lo=0,hi=100"}, {"top-k", ""}} {
		call, err := parseCallOf(h.T, h.n, c[0], c[1])
		if err != nil {
			h.Fatal(err)
		}
		calls = append(calls, call)
	}
	cap := func(from, to int64) record.RangeSet {
		return record.RangeSet{{From: from * 1e9, To: to * 1e9}}
	}
	boxes := []record.Box{{}, {record.CID: {record.At(1)}}, {record.MID: {{From: 10, To: 90}}},
		{record.MID: {{From: 10, To: 90}}, record.Cap: cap(100, 300)},
		{record.Cap: cap(50, 1000)}, {record.Cap: cap(50, 800), record.MOID: {record.At(2)}},
		{record.MID: {{From: 3, To: 40}, {From: 50, To: 110}}}}
	for range 40 {
		q := &record.Query{Box: boxes[h.rng.IntN(len(boxes))],
			Aggregate: calls[h.rng.IntN(len(calls))]}
		if h.rng.IntN(3) == 0 {
			q.View = record.ViewLatest
		}
		if h.rng.IntN(3) == 0 {
			q.Filters = thresholds(h.T, h.n, fmt.Sprintf("op=ge,value=%d", h.rng.IntN(2)*300))
		}
		all = append(all, q)
	}
	return all
}

// ask compares the answer with the one of who reads all rows, to the last bit.
func (h *meterHouse) ask(q *record.Query, after string) {
	h.Helper()
	layout := func() [3]int64 {
		st := h.n.StoreStats()
		return [3]int64{int64(st.Segments), st.SegmentBytes, st.HeadRows}
	}
	for {
		before := layout()
		groups := func(of func(context.Context, *record.Query) ([]wire.Group, wire.End, error),
			q *record.Query,
		) []wire.Group {
			mine := *q
			groups, _, err := of(h.Context(), &mine)
			if err != nil {
				h.Fatalf("after %s: %s: %v", after, engine.QueryText(q), err)
			}
			if left := h.n.host.Stats().Instances; left != 0 {
				h.Fatalf("after %s: %s: %d instances are left", after, engine.QueryText(q), left)
			}
			return groups
		}
		rows := *q // not folded
		rows.Aggregate, rows.KeysOnly = record.PluginCall{}, true
		count := uint64(0)
		_, err := h.n.Query(h.Context(), &rows, func(b *record.Batch) error {
			for i := range b.Len() {
				if !b.Tomb(i) {
					count++
				}
			}
			return nil
		})
		if err != nil {
			h.Fatal(err)
		}
		fresh, got := groups(h.n.Fresh().Aggregate, q), groups(h.n.Aggregate, q)
		past := *q
		if q.View == record.ViewLatest && q.Last == 0 && len(q.Box[record.Acq]) == 0 &&
			h.rng.IntN(4) == 0 {
			past.View, past.AsOfAcqNs = record.ViewAsOf, h.moments[len(h.moments)-1]
		}
		freshPast, gotPast := fresh, got
		if past.View != q.View {
			freshPast = groups(h.n.Fresh().Aggregate, &past)
			gotPast = groups(h.n.Aggregate, &past)
		}
		if layout() != before {
			continue // rows came to lie in other blocks: sums may differ in their last bits
		}
		if !reflect.DeepEqual(got, gotPast) || !reflect.DeepEqual(got, freshPast) {
			h.Fatalf("after %s: %s: %+v, as of now %+v, reading all rows %+v", after,
				engine.QueryText(q), got, gotPast, freshPast)
		}
		if folded := append(got, wire.Group{})[0].Records; folded != count {
			h.Fatalf("after %s: %s: %d records, %d lie there", after, engine.QueryText(q), folded,
				count)
		}
		if !reflect.DeepEqual(got, fresh) {
			h.Fatalf("after %s: %s: %+v, reading all rows: %+v", after, engine.QueryText(q), got,
				fresh)
		}
		return
	}
}

// TestCachedStatesChangeNothing asks the same queries again and again while data come, are
// corrected, deleted, erased and purged, sealed and merged.
func TestCachedStatesChangeNothing(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rows, turns := rounds.Of(100_000, 50_000, 20_000), rounds.Of(40, 12, 6)
	for _, limit := range []int64{0, int64(rounds.Of(40<<10, 20<<10, 20<<10))} { // some are evicted
		rng := rand.New(rand.NewPCG(seed, 5))
		h := &meterHouse{T: t, rng: rng, n: openTest(t, Options{PartialBytes: limit,
			Store: store.Options{Workers: 1 + rng.IntN(3), Shards: 1 << rng.IntN(2),
				SealRows: rows/5 + rng.IntN(rows*3/5)}})}
		h.moments = []int64{1e15 + 5e14}
		h.note()
		h.send(rows)
		h.note()
		queries := h.queries()
		after := "nothing"
		for range turns {
			for range 3 {
				query, kind := queries[rng.IntN(len(queries))], rng.IntN(10)
				for range 5 {
					q := *query
					h.vary(&q, kind)
					h.ask(&q, after)
				}
			}
			after = h.happen()
		}
		st := h.n.partialCache.Stats()
		t.Logf("space for %d: %+v", limit, st)
		if limit > 0 && (st.Bytes > limit || !testing.Short() && st.Evicted == 0) {
			t.Errorf("%+v with space for %d bytes", st, limit)
		}
		if st.Stored == 0 || st.Misses == 0 || limit == 0 && st.Hits < uint64(turns)/4 {
			t.Errorf("nothing was put to the test: %+v", st)
		}
	}
}

// TestCachedStatesWhileDataChanges asks from several goroutines while segments are made, merged and
// purged.
func TestCachedStatesWhileDataChanges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := &meterHouse{T: t, rng: rand.New(rand.NewPCG(seed, 6)), n: openTest(t, Options{
		PartialBytes: 100 << 10, Store: store.Options{Workers: 2, SealRows: 20_000}})}
	h.send(rounds.Of(60_000, 60_000, 40_000))
	queries := h.queries()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(worker)))
			for {
				select {
				case <-done:
					return
				default:
				}
				q := *queries[rng.IntN(len(queries))]
				if _, _, err := h.n.Aggregate(t.Context(), &q); err != nil {
					t.Errorf("%s: %v", engine.QueryText(&q), err)
					return
				}
			}
		})
	}
	for range rounds.Of(8, 8, 4) {
		h.happen()
	}
	close(done)
	wg.Wait()
	h.settled(0)        // states are kept of sealed blocks
	for i := range 30 { // that are asked again
		h.ask(queries[i%10], "all")
	}
	if st := h.n.partialCache.Stats(); st.Bytes > 100<<10 || st.Stored == 0 {
		t.Errorf("%+v", st)
	}
}

// TestCachedStatesOfModules: the same name with another module, and another filter before it,
// is another query.
func TestCachedStatesOfModules(t *testing.T) {
	h := &meterHouse{T: t, rng: rand.New(rand.NewPCG(1, 2)), n: openTest(t, Options{})}
	h.settled(50_000)
	records := func(q *record.Query) (result string) {
		t.Helper()
		for range 3 {
			mine := *q
			groups, _, err := h.n.Aggregate(t.Context(), &mine)
			if err != nil || len(groups) != 1 {
				t.Fatal(groups, err)
			}
			result = fmt.Sprintf("%d %x", groups[0].Records, groups[0].Result)
		}
		return result
	}
	seen := map[string]string{}
	for _, module := range []string{"count", "stats", "first-last"} {
		_, err := h.n.PushPlugin(t.Context(), PluginPush{Name: "mine",
			Wasm: standardModule(t, module)})
		if err != nil {
			t.Fatal(err)
		}
		for _, params := range []string{"op=ge,value=0", "op=ge,value=500", ""} {
			q := &record.Query{Aggregate: record.PluginCall{Name: "mine"}}
			if params != "" {
				q.Filters = thresholds(t, h.n, params)
			}
			result, name := records(q), module+" "+params
			for other, its := range seen {
				if its == result {
					t.Errorf("%s has the answer of %s: %s", name, other, its)
				}
			}
			seen[name] = result
		}
	}
	if st := h.n.partialCache.Stats(); st.Hits == 0 {
		t.Errorf("nothing was kept: %+v", st)
	}
}

// settled returns a node with that many rows of meters in sealed segments.
func (h *meterHouse) settled(rows int) {
	h.Helper()
	h.send(rows)
	if err := h.n.Settle(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// known explains a query, and returns how many parts there are, and how many states are kept.
func (h *meterHouse) known(q *record.Query) (parts, known uint64) {
	h.Helper()
	mine := *q
	x, err := h.n.Explain(h.Context(), &mine)
	if err != nil {
		h.Fatal(err)
	}
	return x.Partials, x.PartialsKnown
}

func (h *meterHouse) answer(q *record.Query) []wire.Group {
	h.Helper()
	mine := *q
	groups, _, err := h.n.Aggregate(h.Context(), &mine)
	if err != nil {
		h.Fatal(err)
	}
	return groups
}

// TestExplainCachedStates: an explanation says what is kept, and asks for none.
func TestExplainCachedStates(t *testing.T) {
	h := &meterHouse{T: t, rng: rand.New(rand.NewPCG(1, 2)), n: openTest(t, Options{})}
	h.settled(50_000)
	q := &record.Query{Aggregate: record.PluginCall{Name: "stats"},
		Box: record.Box{record.MID: {{From: 10, To: 90}}}}
	for asked := range 4 {
		parts, known := h.known(q)
		again, stillKnown := h.known(q)
		want := uint64(0)
		if asked > 1 {
			want = parts
		}
		if parts < 5 || known != want || again != parts || stillKnown != known {
			t.Errorf("asked %d times: %d of %d parts are kept, then %d of %d", asked, known, parts,
				stillKnown, again)
		}
		h.answer(q)
	}
	f := func(want bool, change func(q *record.Query)) {
		t.Helper()
		other := *q
		change(&other)
		if parts, known := h.known(&other); known > 0 != want {
			t.Errorf("%d of %d parts of %s", known, parts, engine.QueryText(&other))
		}
	}
	f(true, func(q *record.Query) { q.View = record.ViewLatest })
	f(false, func(q *record.Query) { q.Filters = thresholds(t, h.n, "op=ge,value=0") })
	f(false, func(q *record.Query) { q.GroupBy.MID = true })
	f(false, func(q *record.Query) { q.Aggregate.Name = "" })
	f(false, func(q *record.Query) { q.Aggregate.Name = "count" })
	q.Aggregate.Name = "nobody"
	if _, err := h.n.Explain(t.Context(), q); toWire(err).Kind != wire.KindUnknownPlugin {
		t.Errorf("an aggregate that is not there: %v", err)
	}
}

// TestCachedOfNothing: that filters leave nothing of a part is kept, too.
func TestCachedOfNothing(t *testing.T) {
	h := &meterHouse{T: t, rng: rand.New(rand.NewPCG(1, 2)), n: openTest(t, Options{})}
	h.settled(50_000)
	q := &record.Query{Aggregate: record.PluginCall{Name: "count"},
		Filters: thresholds(t, h.n, "op=ge,value=1e12")}
	for range 3 {
		if groups := h.answer(q); len(groups) != 0 {
			t.Errorf("%+v", groups)
		}
	}
	if parts, known := h.known(q); parts < 5 || known != parts {
		t.Errorf("%d of %d parts are known to have nothing", known, parts)
	}
}

// TestCachedStatesOfTenants: what a module that is not the node's made for one who asks for several
// tenants is not for one who asks for one of them, as it may know of the others.
func TestCachedStatesOfTenants(t *testing.T) {
	h := &meterHouse{T: t, rng: rand.New(rand.NewPCG(1, 2)), n: openTest(t, Options{})}
	for hour := int64(0); hour < 500; hour += 50 {
		var b record.Batch
		for i := range int64(50 * 100) { // each tenant has 50 meters of its own
			b.Append(record.Key{CID: int32(i % 2), MID: i%2*1000 + i/2%50, MOID: 1,
				CapNs: (hour + i/100) * 1e9}, f64(h.rng.NormFloat64()))
		}
		h.put(&b)
	}
	_, err := h.n.PushPlugin(t.Context(), PluginPush{Name: "mine", Wasm: variant(t, "stats", "x")})
	if err == nil {
		err = h.n.Settle(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	lent := record.PluginCall{Name: "lent", Module: variant(t, "stats", "y")}
	for _, call := range []record.PluginCall{{Name: "stats"}, {Name: "mine"}, lent} {
		wide := &record.Query{Aggregate: call, Box: record.Box{record.CID: {{From: 0, To: 2}}}}
		narrow := *wide
		narrow.Box[record.CID] = record.RangeSet{record.At(1)}
		var first []wire.Group
		for range 3 {
			h.answer(wide)
		}
		parts, known := h.known(&narrow)
		if own := call.Name == "stats"; known > 0 != own || parts < 3 {
			t.Errorf("%s: %d of %d parts are kept that several tenants had", call.Name, known,
				parts)
		}
		for range 3 {
			got := h.answer(&narrow)
			if first == nil {
				first = got
			}
			if !reflect.DeepEqual(got, first) {
				t.Errorf("%s: %+v, then %+v", call.Name, first, got)
			}
		}
		if again, known := h.known(&narrow); again != parts || known != parts {
			t.Errorf("%s: %d of %d parts are kept", call.Name, known, again)
		}
	}
}
