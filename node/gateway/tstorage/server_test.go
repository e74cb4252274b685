package tstorage

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/cluster-test/warmcode"
	"github.com/pentad-db/pentad/node"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func openNode(t testing.TB, opt node.Options) *node.Node {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	warmcode.Fill(t, opt.Dir, false)
	n, err := node.Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil && !strings.Contains(err.Error(), "closing") {
			t.Error(err)
		}
	})
	return n
}

// serve starts a gateway, before a node of its own unless opt names a database.
func serve(t testing.TB, opt Options) *Server {
	t.Helper()
	if opt.Database == nil {
		opt.Database = openNode(t, node.Options{})
	}
	var text syncBuffer
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.NewTextHandler(&text, nil))
	}
	s, err := Listen("127.0.0.1:0", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // clients that a test left are hung up on
		if err := s.Close(ctx); err != nil && !errors.Is(err, net.ErrClosed) &&
			!errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if strings.Contains(text.String(), "panic") {
			t.Error(text.String())
		}
		if used := s.Stats().BufferBytes; used != 0 {
			t.Errorf("%d bytes of the budget were never given back", used)
		}
	})
	return s
}

// sameRecords compares what is stored with what was sent, in any order and without acq.
func sameRecords(t testing.TB, got, want []ttRecord) {
	t.Helper()
	plain := func(in []ttRecord) []ttRecord {
		out := make([]ttRecord, len(in))
		for i, r := range in {
			out[i] = r.withoutAcq()
		}
		slices.SortFunc(out, compareRecords)
		return out
	}
	if g, w := plain(got), plain(want); !slices.Equal(g, w) {
		if len(g)+len(w) > 20 {
			t.Fatalf("%d records, not the %d that were sent", len(g), len(w))
		}
		t.Fatalf("records\n%v, want\n%v", g, w)
	}
}

func compareRecords(a, b ttRecord) int {
	return slices.Compare([]int64{int64(a.cid), a.mid, int64(a.moid), a.cap, a.acq,
		int64(strings.Compare(a.payload, b.payload))},
		[]int64{int64(b.cid), b.mid, int64(b.moid), b.cap, b.acq, 0})
}

// TestPutGet stores records and reads them back, whole and through boxes.
func TestPutGet(t *testing.T) {
	c := ttDial(t, serve(t, Options{}))
	before := time.Now().UnixNano() - 978_307_200_000_000_000
	sent := []ttRecord{
		{ttKey{0, 12, 0, 10, 0}, "one"}, {ttKey{0, 12, 0, 10, 0}, "two"},
		{ttKey{0, 13, -5, -10, 0}, ""}, {ttKey{7, -3, 2, 800_000_000_000_000_000, 0}, "three"},
	}
	least, most, st, err := c.put(false, sent...)
	if err != nil || st != 0 || least < before || most < least+3 {
		t.Fatalf("put: acq %d to %d, status %d, %v", least, most, st, err)
	}
	got, acq, st, err := c.get(ttMin(), ttMax())
	if err != nil || st != 0 || acq <= most {
		t.Fatalf("get: acq %d after %d, status %d, %v", acq, most, st, err)
	}
	sameRecords(t, got, sent)
	for _, r := range got {
		if r.acq < least || r.acq > most {
			t.Errorf("%v has an acq outside [%d, %d]", r, least, most)
		}
	}
	got, _, st, err = c.get(ttKey{0, 12, 0, 10, least}, ttKey{1, 13, 1, 11, acq})
	if err != nil || st != 0 {
		t.Fatalf("get: status %d, %v", st, err)
	}
	sameRecords(t, got, sent[:2])
}
