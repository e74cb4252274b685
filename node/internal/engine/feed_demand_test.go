package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
)

// idleGroup is a replica of a group of its own log, whose horizon moves when it is asked for,
// after a moment, or when something is put.
type idleGroup struct {
	*testing.T
	*localSource
	asked atomic.Int32
	mu    sync.Mutex // guards index
	index uint64
}

func openIdleGroup(t *testing.T, number byte) *idleGroup {
	t.Helper()
	id := make([]byte, 16)
	id[0] = number
	s, _, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(),
		Group: hex.EncodeToString(id)})
	if err != nil {
		t.Fatal(err)
	}
	e := New(Options{Store: s, Readers: 8, Processors: cpushare.New(2), Open: t.Context(),
		Queries: admission.New(admission.Options{Permits: 8}),
		Limits:  Limits{FeedBytes: 1 << 30}}, false)
	g := &idleGroup{T: t,
		localSource: &localSource{engine: e, store: s, group: cluster.GroupID(number)}}
	g.apply(commands.AppendHorizon(nil))
	return g
}

func (g *idleGroup) apply(data []byte) (acqNs int64) {
	g.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.index++
	out, err := g.store.Apply(context.Background(),
		[]store.Command{{Index: g.index, ClockNs: time.Now().UnixNano(), Data: data}})
	if err != nil {
		g.Fatal(err)
	}
	return out[0].Put.LastAcqNs
}

// changes implements source: what wakes the feed closes the group, as its leader would.
func (g *idleGroup) changes(
	ctx context.Context, q *prepared, fromNs int64, follow bool, d *feed.Demand,
	emit func(*store.Slice) error,
) error {
	inner := new(feed.Demand)
	d.Begin(func(acqNs int64) {
		inner.Pass(acqNs)
		go func() {
			time.Sleep(3 * time.Millisecond)
			g.apply(commands.AppendHorizon(nil))
			g.asked.Add(1)
		}()
	})
	return g.localSource.changes(ctx, q, fromNs, follow, inner, emit)
}

// openIdleGroups returns groups and what reads them from now on, until done.
func openIdleGroups(t *testing.T, count int) (groups []*idleGroup, all []feed.Source, from int64) {
	t.Helper()
	from = time.Now().UnixNano()
	for i := range count {
		groups = append(groups, openIdleGroup(t, byte(i+1)))
		all = append(all, changesOf(groups[i], &prepared{Query: &record.Query{}}, from, true))
	}
	return groups, all, from
}

// mergeIdleGroups hands what comes to the groups to emit until done.
func mergeIdleGroups(
	t *testing.T, groups []*idleGroup, all []feed.Source, from int64, d *feed.Demand,
	emit func(*store.Slice) error,
) (done func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		ask := feed.Request{FromNs: from, Follow: true, Beat: time.Hour}
		_, err := feed.Merge(ctx, all, ask, d, emit)
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
		for _, g := range groups {
			if err := g.store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAFeedDoesNotWaitForIdleGroups: a record comes as soon as those who lead the other groups can
// close them: no beat passes, and nothing is asked of them while nothing comes.
func TestAFeedDoesNotWaitForIdleGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups, all, from := openIdleGroups(t, 3)
		came := make(chan int64, 16)
		done := mergeIdleGroups(t, groups, all, from, new(feed.Demand), func(s *store.Slice) error {
			for _, acq := range s.Rows.AcqNs {
				came <- acq
			}
			return nil
		})
		for round := range 10 {
			time.Sleep(5 * feed.SourceBeat)
			var b record.Batch
			b.Append(record.Key{CID: 1, MID: 1, MOID: 1, CapNs: int64(round)}, f64(1))
			command, err := commands.AppendPut(nil, &b, store.WriterSeq{})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			acq := groups[round%3].apply(command)
			select {
			case got := <-came:
				if got != acq {
					t.Errorf("acq %d, want %d", got, acq)
				}
			case <-time.After(time.Minute):
				t.Error("a record did not come within a minute")
			}
			if took := time.Since(began); took > feed.SourceBeat/10 {
				t.Errorf("round %d: a record took %v", round, took)
			}
		}
		time.Sleep(10 * feed.SourceBeat)
		done()
		for i, g := range groups {
			if g.asked.Load() > 10 {
				t.Errorf("group %d was closed %d times for 10 records", i+1, g.asked.Load())
			}
		}
	})
}

// TestAMergedFeedComesFurtherWhenOthersWait: a feed that another node merges with its own lets its
// groups pass an acq when it is told of it by its number, and says so at once.
func TestAMergedFeedComesFurtherWhenOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups, all, from := openIdleGroups(t, 2)
		d, known := new(feed.Demand), new(feed.Demands)
		remove := known.Add(7, d)
		told := make(chan int64, 1000)
		done := mergeIdleGroups(t, groups, all, from, d, func(s *store.Slice) error {
			told <- s.ClosedNs
			return nil
		})
		for range 10 {
			time.Sleep(5 * feed.SourceBeat)
			for len(told) > 0 {
				<-told
			}
			began := time.Now()
			known.Pass(7, began.UnixNano())
			known.Pass(8, began.UnixNano())
			late := time.After(time.Minute)
			for closed := int64(0); closed <= began.UnixNano() && time.Since(began) < time.Minute; {
				select {
				case closed = <-told:
				case <-late:
				}
			}
			if took := time.Since(began); took > feed.SourceBeat/10 {
				t.Errorf("it took %v", took)
			}
		}
		remove()
		options := groups[0].asked.Load()
		known.Pass(7, time.Now().UnixNano())
		time.Sleep(5 * feed.SourceBeat)
		done()
		if groups[0].asked.Load() != options {
			t.Error("a feed that has ended is woken")
		}
	})
}
