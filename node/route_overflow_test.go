package node

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// framesOf are frames with rows of the same reading.
func framesOf(t *testing.T, rows ...int) (out []byte) {
	t.Helper()
	for _, count := range rows {
		var b record.Batch
		for i := range count {
			b.AppendStamped(record.Key{CID: 1, AcqNs: int64(i) + 1}, nil)
		}
		var err error
		if out, err = wire.AppendRows(out, &b); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestOrderedRowsOutliveASource that dies in its answer: those that came are forgotten, and another
// node is asked.
func TestOrderedRowsOutliveASource(t *testing.T) {
	s := openSpread(t, 2, 2)
	s.fill(rand.New(rand.NewPCG(1, 6)), 2)
	good := s.places[0][1].Peers[0]
	rows, asked := framesOf(t, 1), 0
	fakePeer(s, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write(rows)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	there := &s.places[0][1]
	there.Peers = []*engine.Peer{there.Peers[0], good}
	s.route(0)
	for _, q := range []*record.Query{{Order: record.OrderKey}, {Limit: 50},
		{Limit: 700, Order: record.OrderAcq}, {Limit: 900_000, Order: record.OrderKey}} {
		want, _ := s.rows(s.whole, q)
		got, end := s.rows(s.near(), q)
		if q.Order == record.OrderNone {
			got, want = got[:0], want[:len(want)-len(got)] // any will do
		}
		if !slices.Equal(got, want) || !end.Complete || end.HorizonNs <= s.last {
			t.Errorf("%s: %d rows, want %d, or others; %+v", engine.QueryText(q), len(got),
				len(want), end)
		}
	}
	if asked < 3 { // a limit may be reached before
		t.Errorf("who fails was asked %d times", asked)
	}
}

// TestALimitIsReachedWithoutASource that fails before: no rows of it are missed, so the answer is
// complete.
func TestALimitIsReachedWithoutASource(t *testing.T) {
	s := openSpread(t, 2, 2)
	s.fill(rand.New(rand.NewPCG(1, 8)), 1)
	died := make(chan struct{})
	var once sync.Once
	fakePeer(s, func(_ http.ResponseWriter, _ *http.Request) {
		once.Do(func() { close(died) })
		panic(http.ErrAbortHandler)
	})
	rows := 0
	end, err := s.near().AllowPartial().Query(t.Context(), &record.Query{Limit: 1},
		func(b *record.Batch) error {
			<-died
			<-time.After(200 * time.Millisecond) // until this node knows of it
			rows += b.Len()
			return nil
		})
	if err != nil || rows != 1 || !end.Complete || end.Reason != "" {
		t.Errorf("%d rows, %+v, %v", rows, end, err)
	}
	end, err = s.near().AllowPartial().Query(t.Context(), &record.Query{Limit: 900_000},
		func(*record.Batch) error { return nil })
	if err != nil || end.Complete {
		t.Errorf("a limit that is not reached: %+v, %v", end, err)
	}
}

// heldRows is the largest limit of a query whose rows are all held.
const heldRows = 1 << 16

// TestLimitedRowsHaveAHorizon, also when all come from another node and are not held.
func TestLimitedRowsHaveAHorizon(t *testing.T) {
	s := openSpread(t, 2, 2)
	answer := wire.AppendEnd(framesOf(t, 40_000, 40_000),
		&wire.End{Complete: true, HorizonNs: 9, Rows: 80_000})
	fakePeer(s, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })
	rows, end := s.rows(s.near(), &record.Query{Limit: heldRows + 1})
	if len(rows) != heldRows+1 || end.HorizonNs != 9 || !end.Complete {
		t.Errorf("%d rows, %+v", len(rows), end)
	}
}

// TestLimitedRowsTakeNoMemory beyond what an answer may take: then they are not held.
func TestLimitedRowsTakeNoMemory(t *testing.T) {
	s := openSpread(t, 2, 2)
	s.near().engine.Limits.ResultBytes = 100 * 64
	answer := wire.AppendEnd(framesOf(t, 90, 90, 90),
		&wire.End{Complete: true, HorizonNs: 9, Rows: 270})
	fakePeer(s, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })
	for _, limit := range []uint64{100, 200, 250, 300} {
		rows, end := s.rows(s.near(), &record.Query{Limit: limit})
		if len(rows) != int(min(limit, 270)) || end.HorizonNs != 9 || !end.Complete {
			t.Errorf("limit %d: %d rows, %+v", limit, len(rows), end)
		}
	}
}

// silent is a node that never answers; asked gets a word for each query, gone when it ended.
func silent(s *spread) (asked, gone chan struct{}) {
	asked, gone = make(chan struct{}, 9), make(chan struct{}, 9)
	fakePeer(s, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see who goes away
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	return asked, gone
}

// TestAnswersInPartOfSilentSources: what is there is told before the time is over.
func TestAnswersInPartOfSilentSources(t *testing.T) {
	s := openSpread(t, 2, 2)
	s.fill(rand.New(rand.NewPCG(1, 7)), 1)
	left := s.rowsOf(func(g int) bool { return g == 0 })
	silent(s)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	count, end, err := s.near().AllowPartial().Count(ctx, &record.Query{})
	if err != nil || count != left || end.Complete || end.HorizonNs == 0 ||
		!strings.Contains(end.Reason, "node fake, groups [2]: it did not answer in time") {
		t.Errorf("count %d, want %d, %+v, %v", count, left, end, err)
	}
	if err := s.stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err = s.near().AllowPartial().Count(ctx, &record.Query{}); err == nil {
		t.Error("an answer without any source")
	}
}

// TestHangUpReachesOtherNodes: after a disconnect no node works for the query.
func TestHangUpReachesOtherNodes(t *testing.T) {
	s := openSpread(t, 2, 2)
	asked, gone := silent(s)
	near := dial(t, s.near())
	for what, ask := range map[string]func(ctx context.Context) error{
		"count": func(ctx context.Context) error {
			_, _, err := near.Count(ctx, &record.Query{})
			return err
		},
		"rows": func(ctx context.Context) error {
			_, err := near.Scan(ctx, &record.Query{}, func(*record.Batch) error { return nil })
			return err
		},
		"groups": func(ctx context.Context) error {
			_, _, err := near.Aggregate(ctx, &record.Query{
				Aggregate: record.PluginCall{Name: "count"}})
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error)
		go func() { answered <- ask(ctx) }()
		<-asked
		cancel()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		<-gone
	}
}

// TestStatesTakeMemory of their keys, too.
func TestStatesTakeMemory(t *testing.T) {
	s := openSpread(t, 1, 1)
	v, err := s.near().plugins.UseKind(t.Context(), "count", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.near().plugins.Unpin(v)
	one := []wire.GroupState{{State: make([]byte, v.StateBytes())}}
	into := &aggregate.States{}
	for range 30 {
		if err := into.Add(v, nil, one); err != nil {
			t.Fatal(err)
		}
	}
	if least := 30 * (aggregate.KeyBytes + v.StateBytes()); into.Bytes() < least {
		t.Errorf("30 groups take %d bytes, at least %d are", into.Bytes(), least)
	}
}

// TestMomentsToCome: what will be known then cannot be told.
func TestMomentsToCome(t *testing.T) {
	n := openTest(t, Options{})
	q := &record.Query{View: record.ViewAsOf, AsOfAcqNs: time.Now().Add(time.Hour).UnixNano()}
	_, _, err := n.Count(t.Context(), q)
	var invalid *record.InvalidError
	if !errors.As(err, &invalid) || invalid.Part != "asof" {
		t.Error(err)
	}
	for _, path := range []string{"/v1/count?asof=now%2B1h", "/v1/records?asof=now%2B1h",
		"/v1/asof?at=now%2B1h", "/v1/plugins/count/run?asof=now%2B1h"} {
		status, body := post(t, n, "GET", path, "", nil)
		if status != http.StatusBadRequest || !strings.Contains(string(body), "in the future") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	q.AsOfAcqNs = time.Now().UnixNano()
	if _, end, err := n.Count(t.Context(), q); err != nil || end.HorizonNs < q.AsOfAcqNs {
		t.Errorf("as of now: %+v, %v", end, err)
	}
}
