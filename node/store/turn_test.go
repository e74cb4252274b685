package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// There is one committer at a time, whoever it is, and none once the store is closed.
func TestOneCommitterAtATime(t *testing.T) {
	s, _, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	const each = 200
	turns := 0 // the committer's: the race detector finds two of them
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range each {
				if err := s.onCommitter(t.Context(), func() { turns++ }); err != nil {
					t.Error(err)
				}
				if n%20 == i {
					mustPut(t, s, batchOf(record.Key{MID: int64(i)}), WriterSeq{})
				}
			}
		})
	}
	wg.Wait()
	if turns != 4*each {
		t.Errorf("%d turns of %d", turns, 4*each)
	}
	busy, free := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		if err := s.onCommitter(t.Context(), func() { close(busy); <-free }); err != nil {
			t.Error(err)
		}
	})
	<-busy
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := func() { t.Error("a second committer") }
	if err := s.onCommitter(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("while another has the turn: %v", err)
	}
	closed := make(chan error, 1)
	wg.Go(func() { closed <- s.Close() })
	<-s.stop // Close waits for who has the turn
	select {
	case err := <-closed:
		t.Errorf("closed beside the committer: %v", err)
	default:
	}
	close(free)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := s.onCommitter(t.Context(), never); !errors.Is(err, ErrClosed) {
		t.Errorf("once closed: %v", err)
	}
}
