package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestFeedsDuringStampedPuts: followers get every record once, while records come with acqs of
// their own and without, heads are sealed, and others are erased.
func TestFeedsDuringStampedPuts(t *testing.T) {
	s := openTest(t, Options{Shards: 4, SealRows: 500})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 3 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			floor := int64(1)
			for i := 0; ctx.Err() == nil; i++ {
				b := &record.Batch{}
				acq := max(floor, time.Now().UnixNano()-rng.Int64N(40_000))
				for k := range 1 + rng.IntN(20) {
					b.AppendStamped(record.Key{CID: int32(w), MID: int64(k) << 8, CapNs: int64(i),
						AcqNs: acq}, []byte("payload"))
					acq += 1 + rng.Int64N(3)
				}
				var err error
				switch {
				case w == 0:
					b.AcqNs = nil
					_, err = s.Put(t.Context(), b, WriterSeq{})
				case w == 2 && i%50 == 0:
					_, err = s.Erase(t.Context(), record.Box{})
				default:
					var e *record.InvalidError
					if floor, err = s.PutStamped(t.Context(), b); errors.As(err, &e) {
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := make([][]modelRow, 4)
	for i := range got {
		readers.Go(func() {
			f := feedOf(t, s, record.Box{}, 0)
			for last := false; !last; {
				select {
				case <-stop:
					last = true
				default:
					_ = f.Wait(context.Background(), time.Millisecond)
				}
				rows, _ := readFeed(t, f, 0)
				got[i] = append(got[i], rows...)
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	want := scanRows(t, s, &record.Query{})
	for i := range got {
		sortRows(got[i])
		compare(t, "a feed", got[i], want)
	}
}
