package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// A put that queues its batch after the committer has gone is told so.
func TestPutBesideCloseReturns(t *testing.T) {
	s, _, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	close(s.stop) // as Close does, between a put's look at closed and its turn
	s.wg.Wait()
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := s.Put(ctx, batchOf(record.Key{MID: 1}), WriterSeq{})
		cancel()
		if !errors.Is(err, ErrClosed) {
			t.Fatalf("put on a store that closes: %v", err)
		}
	}
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
}
