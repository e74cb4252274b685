package archive

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

func openTest(t *testing.T, opt store.Options) *store.Store {
	t.Helper()
	opt.Dir = cmp.Or(opt.Dir, t.TempDir())
	var ahead atomic.Int64 // no store waits for its clock
	opt.Now = func() int64 { return time.Now().UnixNano() + ahead.Add(int64(2*time.Second)) }
	opt.Index = index.Options{BlockRows: 64}
	s, _, err := store.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func randomSource(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func batchOf(mid int64) *record.Batch {
	b := &record.Batch{}
	b.Append(record.Key{MID: mid}, []byte{byte(mid)})
	return b
}

// randomBatch draws rows of few readings.
func randomBatch(rng *rand.Rand, n int) *record.Batch {
	b := &record.Batch{}
	for range n {
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(30) * 40, MOID: rng.Int32N(2),
			CapNs: rng.Int64N(200)}
		if rng.IntN(20) == 0 {
			b.AppendTomb(k)
		} else {
			b.Append(k, make([]byte, rng.IntN(40)))
		}
	}
	return b
}

func mustPut(t *testing.T, s *store.Store, b *record.Batch, w store.WriterSeq) store.PutResult {
	t.Helper()
	result, err := s.Put(t.Context(), b, w)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// copyDir copies the files of a directory and below.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func keysOf(t *testing.T, s *store.Store, q record.Query) (keys []record.Key) {
	t.Helper()
	_, err := s.Scan(t.Context(), &q, func(int) (store.Sink, error) {
		return func(b *record.Batch) error {
			for i := range b.Len() {
				keys = append(keys, b.Key(i))
			}
			return nil
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(keys, record.Key.Compare)
	return keys
}

// restoreTest restores a backup that ends where a store is now, and compares both.
func restoreTest(t *testing.T, from string, s *store.Store) {
	t.Helper()
	dir := t.TempDir() + "/restored"
	if _, err := Restore(t.Context(), from, dir, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	restored := openTest(t, store.Options{Dir: dir})
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		q := record.Query{View: view}
		if got, want := keysOf(t, restored, q), keysOf(t, s, q); !slices.Equal(got, want) {
			t.Errorf("view %v: %d rows were restored of %d", view, len(got), len(want))
		}
	}
	if err := restored.Close(); err != nil {
		t.Error(err)
	}
}
