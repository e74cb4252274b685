package nodecursors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

const startNs = int64(1_750_000_000_000_000_000)

// positioned has the cursors of a node that is in no cluster.
type positioned struct {
	*Cursors
	dir   string
	store *store.Store
	nowNs atomic.Int64 // the store's clock, which is its horizon
	close func()       // the node begins to close
}

func at(name string, acqNs int64) cursors.Cursor {
	return cursors.Cursor{Name: name, AcqNs: acqNs}
}

func openFile(t *testing.T, dir string) *cursors.File {
	t.Helper()
	f, err := OpenFile(dir, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // again
	return f
}

func openTest(t *testing.T) *positioned {
	t.Helper()
	p := &positioned{dir: filepath.Join(t.TempDir(), "cursors")}
	p.nowNs.Store(startNs)
	var err error
	p.store, _, err = store.Open(t.Context(), store.Options{Dir: t.TempDir(), Now: p.nowNs.Load})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.store.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	open, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	p.close = end
	p.Cursors = &Cursors{File: openFile(t, p.dir), Member: new(atomic.Pointer[member.Member]),
		Engine: engine.New(engine.Options{Store: p.store, Open: open}, true), Open: open}
	return p
}

func wantPart(t *testing.T, err error, part string) {
	t.Helper()
	var remote *wire.Error
	if !errors.As(err, &remote) || remote.Kind != wire.KindInvalid || remote.Part != part {
		t.Errorf("%v, want a bad %s", err, part)
	}
}

// TestModel compares the cursors with a map, over reopenings, up to the horizon and above it.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	p := openTest(t)
	model := map[string]cursors.Cursor{}
	for step := range 150 {
		name := fmt.Sprint("reader-", rng.IntN(5))
		old, known := model[name]
		switch op := rng.IntN(10); {
		case op < 6:
			p.nowNs.Add(rng.Int64N(1000))
			horizon, err := p.store.ExtendHorizon(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			acq, force := horizon+1-rng.Int64N(2000)*rng.Int64N(2), rng.IntN(4) == 0
			before := time.Now().UnixNano()
			c, err := p.Commit(t.Context(), at(name, acq), force)
			switch {
			case acq > horizon:
				wantPart(t, err, "acq")
			case known && acq < old.AcqNs && !force:
				if !errors.Is(err, cursors.ErrBehind) {
					t.Fatalf("step %d: %v", step, err)
				}
			case err != nil || c.Name != name || c.AcqNs != acq || c.CommittedNs < before ||
				c.CommittedNs > time.Now().UnixNano():
				t.Fatalf("step %d: %+v, %v", step, c, err)
			default:
				model[name] = c
			}
		case op < 8:
			err := p.Remove(t.Context(), name)
			if known != (err == nil) || !known && !errors.Is(err, cursors.ErrUnknown) {
				t.Fatalf("step %d: remove: %v", step, err)
			}
			delete(model, name)
		case op < 9:
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			p.File = openFile(t, p.dir)
		}
		got, err := p.Get(t.Context(), name)
		if want, known := model[name]; got != want || known != (err == nil) {
			t.Fatalf("step %d: %+v, %v, want %+v", step, got, err, want)
		}
		all, err := p.List(t.Context())
		if err != nil || len(all) != len(model) {
			t.Fatalf("step %d: %+v, %v, want %+v", step, all, err, model)
		}
		for i, c := range all {
			if model[c.Name] != c || i > 0 && all[i-1].Name >= c.Name {
				t.Fatalf("step %d: %+v, want %+v", step, all, model)
			}
		}
	}
}

// Names are checked first, and a node that closes or cannot say its horizon moves nothing.
func TestErrors(t *testing.T) {
	p, ctx := openTest(t), t.Context()
	if _, err := p.Commit(ctx, at("bill", 5), false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".a", "-a", "a/b", strings.Repeat("a", 65)} {
		_, err := p.Get(ctx, name)
		wantPart(t, err, "name")
		_, err = p.Commit(ctx, at(name, 5), true)
		wantPart(t, err, "name")
		wantPart(t, p.Remove(ctx, name), "name")
	}
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Commit(ctx, at("bill", 6), false); !errors.Is(err, store.ErrClosed) {
		t.Errorf("without a horizon: %v", err)
	}
	p.close()
	if _, err := p.Commit(ctx, at("bill", 6), false); !errors.Is(err, nodeerror.ErrClosing) {
		t.Errorf("the node closes: %v", err)
	}
	if err := p.Remove(ctx, "bill"); !errors.Is(err, nodeerror.ErrClosing) {
		t.Errorf("the node closes: %v", err)
	}
	if c, err := p.Get(ctx, "bill"); err != nil || c.AcqNs != 5 {
		t.Errorf("%+v, %v", c, err)
	}
	none := &Cursors{}
	if err := none.Close(); err != nil || none.Problems() != nil {
		t.Errorf("without a file: %v, %v", err, none.Problems())
	}
}

// In a cluster a commit above the horizon of this node waits for it, as long as its caller does.
func TestHorizonIsWaitedFor(t *testing.T) {
	p := openTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Member.Store(new(member.Member))
	_, err := p.Commit(ctx, at("bill", startNs+1e9), false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("its caller does not wait: %v", err)
	}
	p.nowNs.Store(startNs + 1e9)
	short, cancel := context.WithTimeout(t.Context(), horizonWait/2)
	defer cancel()
	horizon, err := p.horizonAfter(short, startNs+1e9)
	if err != nil || horizon < startNs+1e9 {
		t.Errorf("the horizon has passed: %d, %v", horizon, err)
	}
}

func TestConcurrentCommits(t *testing.T) {
	p := openTest(t)
	var wg sync.WaitGroup
	for worker := range int64(6) {
		wg.Go(func() {
			for i := range int64(20) {
				name := fmt.Sprint("reader-", i%3)
				_, err := p.Commit(t.Context(), at(name, i*6+worker), false)
				if err != nil && !errors.Is(err, cursors.ErrBehind) {
					t.Error(err)
				}
				if _, err := p.Get(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range openFile(t, p.dir).List() {
		if want := map[int]int64{0: 113, 1: 119, 2: 107}[i]; c.AcqNs != want {
			t.Errorf("%+v, want %d", c, want)
		}
	}
}

// A copy has all cursors, none of them above the acq of its snapshot.
func TestCopyTo(t *testing.T) {
	p := openTest(t)
	for name, acq := range map[string]int64{"high": 50, "low": 5} {
		if _, err := p.Commit(t.Context(), at(name, acq), false); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := p.CopyTo(dir, 20); err != nil {
		t.Fatal(err)
	}
	got := openFile(t, dir).List()
	if len(got) != 2 || got[0].AcqNs != 20 || got[1].AcqNs != 5 {
		t.Errorf("%+v", got)
	}
	if err := p.CopyTo(filepath.Join(dir, cursors.Name), 20); err == nil {
		t.Error("copied into a file")
	}
}

// Damage and loss of the file are logged and problems; a file without its head is refused.
func TestOpenFile(t *testing.T) {
	p := openTest(t)
	for acq := range int64(3) {
		if _, err := p.Commit(t.Context(), at("bill", acq), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(p.dir, cursors.Name)
	open := func(holds bool, logged string, problems int) {
		t.Helper()
		var log bytes.Buffer
		f, err := OpenFile(p.dir, holds, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		p.File = f
		if got := p.Problems(); len(got) != problems || !strings.Contains(log.String(), logged) ||
			problems == 0 && log.Len() > 0 {
			t.Errorf("%+v, logged %s", got, log.String())
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open(true, "", 0)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-20] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	open(true, "line 4", 1)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	open(true, "CURSORS is missing", 1)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	open(false, "", 0) // a new node
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.dir, name} {
		if f, err := OpenFile(dir, false, slog.New(slog.DiscardHandler)); err == nil || f != nil {
			t.Errorf("%s was opened", dir)
		}
	}
}
