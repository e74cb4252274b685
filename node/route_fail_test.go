package node

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// rowsOf returns how many rows lie in groups.
func (s *spread) rowsOf(ok func(group int) bool) (rows uint64) {
	s.Helper()
	_, err := s.whole.Query(s.Context(), &record.Query{}, func(b *record.Batch) error {
		for i := range b.Len() {
			if ok(slots.OwnerOf(slots.Of(b.CID[i], b.MID[i]), len(s.stores))) {
				rows++
			}
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return rows
}

// lacks wants queries to fail at a source, and to be answered in part where that is allowed.
func (s *spread) lacks(source string, left uint64) {
	s.Helper()
	aggregate := &record.Query{Aggregate: record.PluginCall{Name: "count"}}
	for what, ask := range map[string]func(Reader) (uint64, wire.End, error){
		"count": func(of Reader) (uint64, wire.End, error) {
			return of.Count(s.Context(), &record.Query{})
		},
		"rows": func(of Reader) (rows uint64, end wire.End, err error) {
			end, err = of.Query(s.Context(), &record.Query{}, func(b *record.Batch) error {
				rows += uint64(b.Len())
				return nil
			})
			return rows, end, err
		},
		"groups": func(of Reader) (rows uint64, end wire.End, err error) {
			groups, end, err := of.Aggregate(s.Context(), aggregate)
			for _, g := range groups {
				rows += g.Records
			}
			return rows, end, err
		},
	} {
		_, _, err := ask(s.near().withoutOptions())
		var at *SourceError
		if !errors.As(err, &at) || !strings.HasPrefix(at.Source, source) ||
			s.near().Kind(err) != wire.KindUnavailable ||
			!strings.Contains(toWire(err).Message, source) {
			s.Errorf("%s: %v, want %s unavailable", what, err, source)
		}
		rows, end, err := ask(s.near().AllowPartial())
		if err != nil || end.Complete || !strings.Contains(end.Reason, source) || rows != left ||
			end.HorizonNs == 0 {
			s.Errorf("%s in part: %d rows, want %d, %+v, %v", what, rows, left, end, err)
		}
	}
}

func TestStoppedSources(t *testing.T) {
	s := openSpread(t, 6, 3)
	s.clock.Add(1)
	var b record.Batch
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		b.Append(record.Key{CID: 1, MID: rng.Int64N(5000), CapNs: rng.Int64N(1000)}, f64(1))
	}
	s.put(&b)
	near := dial(t, s.near())
	if _, end, err := near.AllowPartial().Count(t.Context(), &record.Query{}); err != nil ||
		!end.Complete {
		t.Fatalf("nothing is missing: %+v, %v", end, err)
	}
	if err := s.nodes[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.lacks("node n1", s.rowsOf(func(g int) bool { return g%3 != 1 }))
	s.differs(near)
	if err := s.stores[3].Close(); err != nil {
		t.Fatal(err)
	}
	// Over the network it is 206 where it is known in time, and the end says so in any case.
	status, body := post(t, s.near(), "GET", "/v1/count?partial=allow", "", nil)
	if status != http.StatusPartialContent || !strings.Contains(string(body), `"complete":false`) ||
		!strings.Contains(string(body), "node n1, groups [2 5]: ") ||
		!strings.Contains(string(body), "group 4 of this node: ") {
		t.Errorf("%d %s", status, body)
	}
	left := s.rowsOf(func(g int) bool { return g%3 != 1 && g != 3 })
	count, end, err := near.AllowPartial().Count(t.Context(), &record.Query{})
	if err != nil || end.Complete || count != left {
		t.Errorf("count %d, %+v, %v", count, end, err)
	}
	if status, body := post(t, s.near(), "GET", "/v1/count?partial=maybe", "", nil); status != 400 {
		t.Errorf("%d %s", status, body)
	}
	// What is wrong with the query is no matter of parts.
	q := &record.Query{Aggregate: record.PluginCall{Name: "unheard"}}
	if _, _, err := near.AllowPartial().Aggregate(t.Context(), q); err == nil ||
		s.near().Kind(err) != wire.KindUnknownPlugin {
		t.Error(err)
	}
}

// TestReadersThatStop: no source is to blame for them, nor left out.
func TestReadersThatStop(t *testing.T) {
	s := openSpread(t, 4, 2)
	s.fill(rand.New(rand.NewPCG(1, 4)), 2)
	gone := errors.New("the reader is gone")
	for _, of := range []Reader{s.near().withoutOptions(), s.near().AllowPartial()} {
		_, err := of.Query(t.Context(), &record.Query{}, func(*record.Batch) error { return gone })
		if !errors.Is(err, gone) || errors.As(err, new(*SourceError)) {
			t.Errorf("query: %v", err)
		}
		ask := &record.Diff{ToNs: record.Acq.Max()}
		_, err = of.Diff(t.Context(), ask, func(*record.Differences) error { return gone })
		if !errors.Is(err, gone) || errors.As(err, new(*SourceError)) {
			t.Errorf("diff: %v", err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// where no file can be made
	s.near().engine.Limits.Spill = spill.New(filepath.Join(file, "spill"), 1)
	q := &record.Query{Order: record.OrderKey}
	_, err := s.near().Query(t.Context(), q, func(*record.Batch) error { return nil })
	if err == nil || !strings.Contains(err.Error(), file) || errors.As(err, new(*SourceError)) {
		t.Errorf("no temporary files: %v", err)
	}
	s.near().engine.Limits.ResultBytes = 1000
	_, _, err = s.near().Versions(t.Context(), &record.Box{})
	if s.near().Kind(err) != wire.KindTooLarge {
		t.Errorf("too large: %v", err)
	}
}

// differs wants diffs in part, and of groups that are here, while the second node is not there.
func (s *spread) differs(near *client.Client) {
	s.Helper()
	f := func(what string, c *client.Client, complete bool) {
		s.Helper()
		found := uint64(0)
		end, err := c.DiffBatches(s.Context(), &record.Diff{ToNs: s.clock.Load()},
			func(d *record.Differences) error {
				found += uint64(d.Len())
				return nil
			})
		if err != nil || end.Complete != complete || found == 0 || end.Rows != found ||
			complete == strings.Contains(end.Reason, "node n1") {
			s.Errorf("%s: %d differences, %+v, %v", what, found, end, err)
		}
	}
	f("a diff in part", near.AllowPartial(), false)
	f("a diff of a group", near.OfGroups([]int{1}), true)
	status, body := post(s.T, s.near(), "GET", "/v1/diff?from=0&partial=allow", "", nil)
	if status != http.StatusOK || !strings.Contains(string(body), `"complete":false`) {
		s.Errorf("%d %s", status, body)
	}
}

func TestGroupsThatAreElsewhere(t *testing.T) {
	s := openSpread(t, 4, 2)
	c := dial(t, s.near())
	for _, groups := range [][]int{{2}, {1, 2}, {5}, {1, 65535}} {
		var e *wire.Error
		_, _, err := c.OfGroups(groups).Count(t.Context(), &record.Query{})
		if !errors.As(err, &e) || e.Kind != wire.KindNotFound || e.Part != "groups" {
			t.Errorf("groups %v: %v", groups, err)
		}
	}
	if _, _, err := c.OfGroups([]int{1, 3}).Count(t.Context(), &record.Query{}); err != nil {
		t.Error(err)
	}
}

// fakePeer takes the place of the second node of a spread.
func fakePeer(s *spread, answer http.HandlerFunc) {
	s.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		w.Header().Set("Content-Type", wire.ContentType)
		answer(w, r)
	}))
	s.Cleanup(server.Close)
	c, err := client.Dial(s.Context(), server.URL)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	fake := engine.NewPeer(0, "fake", c)
	for g := range s.places[0] {
		if p := &s.places[0][g]; p.Store == nil {
			p.Peers = []*engine.Peer{fake}
		}
	}
	s.route(0)
}

func TestSourceThatDiesInItsAnswer(t *testing.T) {
	s := openSpread(t, 2, 2)
	var b record.Batch
	b.AppendStamped(record.Key{CID: 1, AcqNs: 5}, nil)
	rows, err := wire.AppendRows(nil, &b)
	if err != nil {
		t.Fatal(err)
	}
	fakePeer(s, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(rows)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for want, limit := range []int64{mostResultBytes, 1} { // held, and not
		s.near().engine.Limits.ResultBytes = limit
		found := 0
		end, err := s.near().AllowPartial().Query(t.Context(), &record.Query{},
			func(b *record.Batch) error {
				found += b.Len()
				return nil
			})
		if err != nil || end.Complete || found != want ||
			!strings.Contains(end.Reason, "node fake") {
			t.Errorf("%d rows, want %d, %+v, %v", found, want, end, err)
		}
	}
	_, err = s.near().Query(t.Context(), &record.Query{}, func(*record.Batch) error { return nil })
	if s.near().Kind(err) != wire.KindUnavailable || !strings.Contains(err.Error(), "node fake") {
		t.Error(err)
	}
}

// TestSourceThatHasAGroupNoMore: who asks this node has no use for the places of groups, and finds
// out by trying again.
func TestSourceThatHasAGroupNoMore(t *testing.T) {
	s := openSpread(t, 2, 2)
	fakePeer(s, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(wire.AppendError(nil, toWire(engine.NotHere(1))))
	})
	_, _, err := s.near().Count(t.Context(), &record.Query{})
	if e := toWire(err); e.Kind != wire.KindUnavailable || !strings.Contains(e.Message, "fake") {
		t.Error(e)
	}
}

// TestSourceThatSaysHalf: of a source that does not say all, nothing is counted or listed.
func TestSourceThatSaysHalf(t *testing.T) {
	s := openSpread(t, 2, 2)
	some, err := wire.AppendVersions(nil, []record.Version{{Record: record.Record{
		Key: record.Key{CID: 1, AcqNs: 5}}}})
	if err != nil {
		t.Fatal(err)
	}
	half := wire.AppendEnd(nil, &wire.End{Rows: 7, HorizonNs: 9, Reason: "a disk is broken"})
	fakePeer(s, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/versions" {
			_, _ = w.Write(some)
		}
		_, _ = w.Write(half)
	})
	f := func(what string, found int, end wire.End, err error) {
		t.Helper()
		if err != nil || found != 0 || end.Rows != 0 || end.Complete ||
			!strings.Contains(end.Reason, "node fake, groups [2]: ") ||
			!strings.Contains(end.Reason, "a disk is broken") {
			t.Errorf("%s: %d, %+v, %v", what, found, end, err)
		}
	}
	versions, end, err := s.near().AllowPartial().Versions(t.Context(), &record.Box{})
	f("versions", len(versions), end, err)
	count, end, err := s.near().AllowPartial().Count(t.Context(), &record.Query{})
	f("count", int(count), end, err)
}

// TestSourceThatIsSlow: a deadline and an end reach the source.
func TestSourceThatIsSlow(t *testing.T) {
	s := openSpread(t, 2, 2)
	asked, gone := make(chan string, 1), make(chan struct{})
	fakePeer(s, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see who goes away
		asked <- r.URL.Query().Get("within_ms")
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	answered := make(chan error)
	go func() {
		_, _, err := s.near().Count(ctx, &record.Query{})
		answered <- err
	}()
	ms, err := strconv.Atoi(<-asked)
	if err != nil || ms <= 0 || ms > 3_600_000 {
		t.Errorf("within %d ms, %v", ms, err)
	}
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-gone
}

// TestSourceThatIsTooSlow: when the time is over, the error says for whom it was waited.
func TestSourceThatIsTooSlow(t *testing.T) {
	s := openSpread(t, 2, 2)
	fakePeer(s, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see who goes away
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, _, err := s.near().Count(ctx, &record.Query{})
	if s.near().Kind(err) != wire.KindTimeout || !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(toWire(err).Message, "node fake, groups [2]") {
		t.Error(err)
	}
}
