package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// selectDevices is what a query of a model selects: a set of mids, empty for none.
func (m *model) selectDevices(q *record.Query) (set record.RangeSet) {
	selector, err := registry.ParseSelector(q.Select)
	if err != nil {
		panic(err)
	}
	newest := record.Query{View: record.ViewLatest, Box: record.Box{
		record.CID: q.Box[record.CID], record.MOID: {record.At(record.DescriptionMOID)}}}
	if q.View == record.ViewAsOf {
		newest.View, newest.AsOfAcqNs = q.View, q.AsOfAcqNs
	}
	newestCap := map[int64]int64{} // of what is a description
	known := map[int64]*registry.Description{}
	for _, r := range m.query(&newest) {
		d, err := registry.Parse([]byte(r.payload))
		if was, ok := newestCap[r.key.MID]; err == nil && (!ok || r.key.CapNs > was) {
			newestCap[r.key.MID], known[r.key.MID] = r.key.CapNs, d
		}
	}
	for mid, d := range known {
		if selector.Match(d) && q.Box[record.MID].Contains(mid) {
			set = append(set, record.At(mid))
		}
	}
	slices.SortFunc(set, func(a, b record.Range) int { return int(a.From - b.From) })
	return set
}

func randomDescription(rng *rand.Rand) []byte {
	return describe(&registry.Description{Type: []string{"thermometer", "meter"}[rng.IntN(2)],
		Group:   fmt.Sprintf("oulu/b%d", rng.IntN(5)),
		Place:   &registry.Place{Lat: 65 + rng.Float64(), Lon: 25 + rng.Float64()},
		Retired: rng.IntN(5) == 0,
		Attributes: map[string]registry.Value{
			"floor": registry.Number(float64(rng.IntN(5)))}})
}

func describe(d *registry.Description) []byte {
	payload, err := registry.Append(nil, d)
	if err != nil {
		panic(err)
	}
	return payload
}

func randomSelector(rng *rand.Rand) string {
	return []string{"type=meter", "type=thermometer, !retired", "group^=oulu/b1/", "floor=2..4",
		"within(65,25,65.5,25.5)", "near(65.5,25.5,40km), floor<3", "type=meter or retired",
		"!type=meter", "missing"}[rng.IntN(9)]
}

func TestModelSelected(t *testing.T) {
	testModel(t, shape{cids: 2, mids: 30, moids: 2, caps: 10, described: true},
		Options{Shards: 4, SealRows: 1500})
}

// TestModelSelectedManyDevices has more devices than a tail of the index, which change slowly.
func TestModelSelectedManyDevices(t *testing.T) {
	testModel(t, shape{cids: 2, mids: 5000, moids: 2, caps: 100, described: true},
		Options{SealRows: 5000, Index: index.Options{BlockRows: 64}})
}

// TestModelSelectedWithoutIndex has no space for an index.
func TestModelSelectedWithoutIndex(t *testing.T) {
	testModel(t, shape{cids: 2, mids: 300, moids: 2, caps: 10, described: true},
		Options{Shards: 2, SealRows: 1500, descriptionBytes: 1000})
}

// TestSelectSeesOwnWrites describes devices from several goroutines, each of which must see at once
// what it wrote, while others make the index follow.
func TestSelectSeesOwnWrites(t *testing.T) {
	s := openTest(t, Options{})
	const writers, turns = 4, 50
	var wg sync.WaitGroup
	var failed atomic.Bool
	for w := range int64(writers) {
		wg.Go(func() {
			for turn := range turns {
				if failed.Load() {
					return
				}
				b := &record.Batch{}
				kind := fmt.Sprintf("kind %d of %d", turn%2, w)
				b.Append(record.Key{CID: 1, MID: w, MOID: record.DescriptionMOID,
					CapNs: int64(turn)}, describe(&registry.Description{Type: kind}))
				b.Append(record.Key{CID: 1, MID: w, MOID: 1, CapNs: int64(turn)}, []byte("x"))
				if _, err := s.Put(t.Context(), b, WriterSeq{}); err != nil {
					t.Error(err)
					failed.Store(true)
					return
				}
				q := &record.Query{Box: record.Box{record.CID: {record.At(1)},
					record.MOID: {record.At(1)}}, Select: fmt.Sprintf("type=%q", kind)}
				n, _, err := s.Count(t.Context(), q)
				if err != nil || n != uint64(turn+1) {
					t.Errorf("writer %d, turn %d: %d rows, %v", w, turn, n, err)
					failed.Store(true)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestSelectIsOfItsHorizon asks again as of the horizon of answers that came while devices were
// described and their descriptions erased: the answer is the same.
func TestSelectIsOfItsHorizon(t *testing.T) {
	s := openTest(t, Options{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const devices, writers = 20, 3
	puts := int64(rounds.Of(10_000, 600, 200))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var put atomic.Int64
	for w := range uint64(writers) {
		rng := rand.New(rand.NewPCG(seed, w))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				key := record.Key{CID: 1, MID: rng.Int64N(devices), CapNs: rng.Int64N(10),
					MOID: record.DescriptionMOID}
				b := &record.Batch{}
				b.Append(key, randomDescription(rng))
				key.MOID = 1
				b.Append(key, []byte("x"))
				_, err := s.Put(t.Context(), b, WriterSeq{})
				if err == nil && rng.IntN(20) == 0 {
					_, err = s.Erase(t.Context(), record.Box{record.MID: {record.At(key.MID)}})
				}
				if err != nil {
					t.Error(err)
					return
				}
				put.Add(1)
			}
		})
	}
	q := &record.Query{View: record.ViewLatest, Select: "type=meter",
		Box: record.Box{record.CID: {record.At(1)}, record.MOID: {record.At(1)}}}
	for put.Load() < puts && !t.Failed() {
		n, stats, err := s.Count(t.Context(), q)
		if err != nil {
			t.Error(err)
			break
		}
		past := *q
		past.View, past.AsOfAcqNs = record.ViewAsOf, stats.HorizonNs
		again, _, err := s.Count(t.Context(), &past)
		if err != nil || n != again {
			t.Errorf("%d rows of horizon %d, and then %d; %v", n, stats.HorizonNs, again, err)
			break
		}
	}
	close(stop)
	wg.Wait()
}
