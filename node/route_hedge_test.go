package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// answersOf are answers of all kinds, as texts.
func (s *spread) answersOf(n *Node) map[string]func(context.Context) (string, error) {
	rows := func(q record.Query) func(ctx context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			var all []string
			asked := q
			_, err := n.Query(ctx, &asked, func(b *record.Batch) error {
				for i := range b.Len() {
					all = append(all, fmt.Sprintf("%+v", b.Record(i)))
				}
				return nil
			})
			if q.Order == record.OrderNone {
				slices.Sort(all)
			}
			return fmt.Sprint(len(all), all), err
		}
	}
	return map[string]func(ctx context.Context) (string, error){
		"rows":    rows(record.Query{}),
		"ordered": rows(record.Query{Order: record.OrderAcq, Limit: 700}),
		"count": func(ctx context.Context) (string, error) {
			count, _, err := n.Count(ctx, &record.Query{})
			return fmt.Sprint(count), err
		},
		"groups": func(ctx context.Context) (string, error) {
			groups, _, err := n.Aggregate(ctx, &record.Query{
				Aggregate: record.PluginCall{Name: "count"},
				GroupBy:   record.GroupBy{CID: true, MOID: true}})
			return fmt.Sprintf("%+v", groups), err
		},
		"diff": func(ctx context.Context) (string, error) {
			found := 0
			_, err := n.Diff(ctx, &record.Diff{ToNs: record.Acq.Max()},
				func(d *record.Differences) error {
					found += d.Len()
					return nil
				})
			return fmt.Sprint(found), err
		},
		"versions": func(ctx context.Context) (string, error) {
			all, _, err := n.Versions(ctx, &record.Box{})
			return fmt.Sprint(len(all)), err
		},
		"horizon": func(ctx context.Context) (string, error) {
			ns, err := n.Horizon(ctx)
			return fmt.Sprint(ns), err
		},
		"explain": func(ctx context.Context) (string, error) {
			x, err := n.Explain(ctx, &record.Query{})
			return fmt.Sprint(x.Found), err
		},
		"digest": func(ctx context.Context) (string, error) {
			d, purged, err := n.Digest(ctx, record.Box{}, []int64{1, s.last}, 0)
			text, _ := json.Marshal(d)
			return fmt.Sprint(string(text), purged), err
		},
	}
}

// TestSilentNodesAreNotWaitedFor: others that have its groups answer in its place, each with its
// own of them, and it is told to end.
func TestSilentNodesAreNotWaitedFor(t *testing.T) {
	s := openSpread(t, 3, 3)
	s.fill(rand.New(rand.NewPCG(1, 8)), 2)
	was := slices.Clone(s.places[0])
	asked, gone := silent(s)
	there := s.places[0]
	for _, g := range []int{1, 2} {
		there[g].Peers = []*engine.Peer{there[g].Peers[0], was[g].Peers[0]}
	}
	s.route(0)
	s.near().hedges.MaxDelay = 10 * time.Millisecond
	want := s.answersOf(s.whole)
	hedges := int64(0)
	for what, ask := range s.answersOf(s.near()) {
		got, err := ask(t.Context())
		if w, _ := want[what](t.Context()); got != w || err != nil {
			t.Errorf("%s: %.200s, want %.200s, %v", what, got, w, err)
		}
		select {
		case <-asked:
			<-gone
			hedges++
		default: // a slow machine: the hedge won before the request came there
		}
	}
	if hedges == 0 {
		t.Error("the silent node was never asked")
	}
	if h := s.near().hedges; h.Sent.Load() < hedges || h.Won.Load() != h.Sent.Load() {
		t.Errorf("%d hedges asked, %d won, want %d", h.Sent.Load(), h.Won.Load(), hedges)
	}
	if !there[1].Peers[0].HasFailed() {
		t.Error("who has lost all is asked again")
	}
}

// TestSeveralSilentNodes: the second that is asked may be silent, too.
func TestSeveralSilentNodes(t *testing.T) {
	s := openSpread(t, 2, 2)
	s.fill(rand.New(rand.NewPCG(1, 9)), 1)
	good := s.places[0][1].Peers[0]
	silent(s)
	one := s.places[0][1].Peers[0]
	silent(s)
	there := &s.places[0][1]
	there.Peers = []*engine.Peer{there.Peers[0], one, good}
	s.route(0)
	s.near().hedges.MaxDelay = 5 * time.Millisecond
	want := s.rowsOf(func(int) bool { return true })
	if got, end, err := s.near().Count(t.Context(), &record.Query{}); got != want || err != nil ||
		!end.Complete {
		t.Errorf("%d, want %d, %+v, %v", got, want, end, err)
	}
}

// script is what a node does with a query.
type script struct {
	pause  time.Duration
	frames int    // of rows
	then   string // end, half, die or hang
}

// scripted is a node that does what a script says, whose rows have its number as their quantity.
func scripted(t *testing.T, number int32, now *atomic.Pointer[script]) *engine.Peer {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		do := now.Load()
		select {
		case <-time.After(do.pause):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", wire.ContentType)
		for i := range do.frames {
			var b record.Batch
			b.AppendStamped(record.Key{CID: 1, MID: int64(i), MOID: number, AcqNs: 5}, nil)
			frame, err := wire.AppendRows(nil, &b)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(frame)
			_ = http.NewResponseController(w).Flush()
		}
		switch do.then {
		case "end":
			_, _ = w.Write(wire.AppendEnd(nil, &wire.End{Complete: true, HorizonNs: 9,
				Rows: uint64(do.frames)}))
		case "half":
			_, _ = w.Write(wire.AppendEnd(nil, &wire.End{HorizonNs: 9, Reason: "a disk",
				Rows: uint64(do.frames)}))
		case "die":
			panic(http.ErrAbortHandler)
		case "hang":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return engine.NewPeer(0, fmt.Sprint("script ", number), c)
}

// TestAnswersAreOfOneNode: whatever two nodes do with a query that both are asked, its answer is
// that of one of them, whole, or an error.
func TestAnswersAreOfOneNode(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := openSpread(t, 2, 2)
	n := s.near()
	n.hedges.MaxDelay = time.Millisecond
	var does [2]atomic.Pointer[script]
	s.places[0][1].Peers = []*engine.Peer{scripted(t, 0, &does[0]), scripted(t, 1, &does[1])}
	s.route(0)
	answered := [2]int{}
	for i := 0; i < fewer(200) || answered[0] == 0 || answered[1] == 0; i++ {
		if i == 10_000 {
			t.Fatalf("%v queries were answered by the first and the second", answered)
		}
		var now [2]script
		for k := range now {
			now[k] = script{time.Duration(rng.IntN(3000)) * time.Microsecond, rng.IntN(4),
				[]string{"end", "end", "half", "die", "hang"}[rng.IntN(5)]}
			does[k].Store(&now[k])
		}
		q := &record.Query{Order: record.Order(rng.IntN(2))}
		n.engine.Limits.ResultBytes = []int64{mostResultBytes, 1}[rng.IntN(2)]
		streams := n.engine.Limits.ResultBytes == 1
		if streams {
			q.Order = record.OrderNone
		}
		sure := !streams && (now[0].then == "end" || now[1].then == "end")
		wait := 10 * time.Millisecond
		if sure {
			wait = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		var rows [2]int
		end, err := n.Query(ctx, q, func(b *record.Batch) error {
			for k := range b.Len() {
				rows[b.MOID[k]]++
			}
			return nil
		})
		cancel()
		what := fmt.Sprintf("round %d: %+v, streams %v: %v rows, %+v, %v", i, now, streams, rows,
			end, err)
		if rows[0] > 0 && rows[1] > 0 || sure && err != nil {
			t.Fatal(what)
		}
		for k := range rows {
			whole := now[k].then == "end" && rows[k] == now[k].frames
			if rows[k] > 0 && err == nil && !whole || err != nil && rows[k] > 0 && !streams {
				t.Fatal(what)
			}
			if rows[k] > 0 && err == nil {
				answered[k]++
			}
		}
	}
}

// TestNodesThatAreGone: a silent node that gossip does not reach is given up.
func TestNodesThatAreGone(t *testing.T) {
	s := openSpread(t, 2, 2)
	n := s.near()
	var does atomic.Pointer[script]
	gone := scripted(t, 7, &does)
	s.places[0][1].Peers = []*engine.Peer{gone}
	s.route(0)
	n.hedges.MaxDelay, n.hedges.GoneAfter = time.Millisecond, 10*time.Millisecond
	n.engine.Limits.ResultBytes = 1
	for _, frames := range []int{0, 2} { // of which the last are not held any more
		does.Store(&script{frames: frames, then: "hang"})
		gone.SetUnreached(frames == 0)
		found := 0
		_, err := n.Query(t.Context(), &record.Query{}, func(b *record.Batch) error {
			if found += b.Len(); found == frames {
				gone.SetUnreached(true)
			}
			return nil
		})
		if n.Kind(err) != wire.KindUnavailable || found != frames {
			t.Errorf("%d rows, want %d, %v", found, frames, err)
		}
	}
	if h := n.hedges; h.Sent.Load() != 0 {
		t.Errorf("%d hedges without alternatives", h.Sent.Load())
	}
}
