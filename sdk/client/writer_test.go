package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func add(t *testing.T, w *Writer, from, to int64) {
	t.Helper()
	for mid := from; mid < to; mid++ {
		if err := w.Add(soon(t), record.Key{MID: mid}, []byte("payload")); err != nil {
			t.Fatal(err)
		}
	}
}

func upTo(n int64) (out []int64) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// TestWriterUnderFaults stores through a node that fails in every way at random: what was flushed
// is there once and in order.
func TestWriterUnderFaults(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	f := newFake(t)
	faults := 0
	f.faults = func(int, *wire.Put) fault {
		what := fault(rng.IntN(2 * int(numFaults)))
		if what >= numFaults {
			return none
		}
		faults++
		return what
	}
	w := f.dial().NewWriter(WriterOptions{BatchRecords: 7, PendingBytes: 500})
	for i := range int64(20) {
		add(t, w, i*10, i*10+10)
		if i%3 == 0 {
			if err := w.Flush(soon(t)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if got := f.stored(); !slices.Equal(got, upTo(i*10+10)) {
				t.Fatalf("seed %d: flushed %d, stored %v", seed, i*10+10, got)
			}
		}
	}
	if err := w.Close(soon(t)); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if got := f.stored(); !slices.Equal(got, upTo(200)) {
		t.Errorf("seed %d: stored %v", seed, got)
	}
	st := w.Stats()
	if st.Records != 200 || faults == 0 || st.Retries < int64(faults)/2 {
		t.Errorf("seed %d: %+v after %d faults", seed, st, faults)
	}
}

// TestWriterOutlivesTheNode kills the node in the midst and starts it again on the same address.
func TestWriterOutlivesTheNode(t *testing.T) {
	f := newFake(t)
	f.move()
	w := f.dial().NewWriter(WriterOptions{BatchRecords: 10})
	add(t, w, 0, 100)
	f.stop()
	add(t, w, 100, 200)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flush without a node: %v", err)
	}
	f.start(f.addr)
	if err := w.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := f.stored(); !slices.Equal(got, upTo(200)) {
		t.Errorf("stored %v", got)
	}
}

// TestFlushWaits holds the answer back: Flush must not return before it.
func TestFlushWaits(t *testing.T) {
	f := newFake(t)
	answer := make(chan struct{})
	asked := make(chan struct{}, 1)
	f.faults = func(int, *wire.Put) fault {
		asked <- struct{}{}
		<-answer
		return none
	}
	w := f.dial().NewWriter(WriterOptions{})
	add(t, w, 0, 5)
	flushed := make(chan error, 1)
	go func() { flushed <- w.Flush(soon(t)) }()
	<-asked
	select {
	case err := <-flushed:
		t.Fatalf("flushed before the answer: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(answer)
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	if err := w.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
}

// TestWriterIsBounded lets nothing through: Add blocks once the pending bytes are reached.
func TestWriterIsBounded(t *testing.T) {
	f := newFake(t)
	answer := make(chan struct{})
	f.faults = func(int, *wire.Put) fault {
		<-answer
		return none
	}
	const pending = 10_000
	w := f.dial().NewWriter(WriterOptions{BatchRecords: 10, PendingBytes: pending})
	added := int64(0)
	payload := make([]byte, 100)
	rng := rand.NewChaCha8([32]byte{})
	put := func(ctx context.Context) error {
		_, _ = rng.Read(payload) // never fails
		return w.Add(ctx, record.Key{MID: added}, payload)
	}
	for ; added < 50; added++ { // for which there is space
		if err := put(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for ; ; added++ {
		err := put(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if most := int64(pending/100 + 20); added > most {
		t.Errorf("%d records were taken without an answer, want at most %d", added, most)
	}
	close(answer)
	if err := w.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := f.stored(); !slices.Equal(got, upTo(added)) {
		t.Errorf("%d stored, %d added", len(got), added)
	}
}

// TestWriterStops refuses a batch for good: it and what follows are not stored, and every later
// call says so.
func TestWriterStops(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	f.server.Handler.(*http.ServeMux).HandleFunc("POST /refusing/v1/put",
		func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindInvalid, Part: "mid",
				Message: "refused by the test"})
		})
	w := c.NewWriter(WriterOptions{BatchRecords: 10})
	add(t, w, 0, 20)
	if err := w.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	c.nodes.bases[0] += "/refusing" // nothing is in progress
	add(t, w, 20, 25)
	err := w.Flush(soon(t))
	var batch *BatchError
	var remote *wire.Error
	if !errors.As(err, &batch) || batch.Seq != 3 || batch.Records != 5 ||
		!errors.As(err, &remote) || remote.Kind != wire.KindInvalid {
		t.Fatalf("refused batch: %v", err)
	}
	if want := "batch 3 of 5 records"; !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "refused by the test") {
		t.Errorf("error %q, want one with %q and the cause", err, want)
	}
	for name, err := range map[string]error{
		"add": w.Add(soon(t), record.Key{},
			nil), "flush": w.Flush(soon(t)), "close": w.Close(soon(t)),
	} {
		if !errors.As(err, &batch) {
			t.Errorf("%s after a refusal: %v", name, err)
		}
	}
	if got := f.stored(); !slices.Equal(got, upTo(20)) {
		t.Errorf("stored %v", got)
	}
}

func TestWriterGivesUp(t *testing.T) {
	f := newFake(t)
	f.faults = func(int, *wire.Put) fault { return deaf }
	for wait := 50 * time.Millisecond; ; wait *= 2 { // a slow machine needs as long for the first
		w := f.dial().NewWriter(WriterOptions{RetryFor: wait})
		add(t, w, 0, 1)
		var batch *BatchError
		if err := w.Close(soon(t)); !errors.As(err, &batch) || batch.Seq != 1 {
			t.Errorf("a node that never answers: %v", err)
		}
		st := w.Stats()
		if st.Records != 0 || st.Retries == 0 && wait > time.Minute {
			t.Errorf("%+v", st)
		}
		if st.Retries > 0 || t.Failed() {
			return
		}
	}
}

func TestWriterRefusesRecords(t *testing.T) {
	f := newFake(t)
	w := f.dial().NewWriter(WriterOptions{})
	var invalid *record.InvalidError
	if err := w.Add(soon(t), record.Key{CID: -1}, nil); !errors.As(err, &invalid) {
		t.Errorf("a cid below 0: %v", err)
	}
	add(t, w, 0, 3) // the refused one is left out, the writer goes on
	if err := w.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := f.stored(); !slices.Equal(got, upTo(3)) {
		t.Errorf("stored %v", got)
	}
	if err := w.Add(soon(t), record.Key{}, nil); !errors.Is(err, ErrWriterClosed) {
		t.Errorf("add after close: %v", err)
	}
	if err := w.Flush(soon(t)); err != nil {
		t.Errorf("flush after a good close: %v", err)
	}
	if err := w.Close(soon(t)); err != nil {
		t.Errorf("close after close: %v", err)
	}
}

// TestCloseInTime ends although the node never answers.
func TestCloseInTime(t *testing.T) {
	f := newFake(t)
	f.faults = func(int, *wire.Put) fault { return busy }
	w := f.dial().NewWriter(WriterOptions{})
	add(t, w, 0, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := w.Flush(soon(t)); !errors.Is(err, ErrWriterClosed) {
		t.Errorf("flush of what was given up: %v", err)
	}
}

func TestWriterFromManyGoroutines(t *testing.T) {
	f := newFake(t)
	w := f.dial().NewWriter(WriterOptions{BatchRecords: 13, PendingBytes: 2000})
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for g := range errs {
		wg.Go(func() {
			for i := range int64(100) {
				key := record.Key{MID: int64(g)*1000 + i}
				if err := w.Add(t.Context(), key, nil); err != nil {
					errs[g] = fmt.Errorf("add %d: %w", i, err)
				}
				if i%40 == 0 {
					errs[g] = errors.Join(errs[g], w.Flush(t.Context()))
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, w.Close(soon(t)))...); err != nil {
		t.Fatal(err)
	}
	last := map[int64]int64{}
	for _, mid := range f.stored() {
		g := mid / 1000
		if mid%1000 != last[g] {
			t.Fatalf("goroutine %d: record %d came when %d was due", g, mid%1000, last[g])
		}
		last[g]++
	}
	if len(f.stored()) != 800 {
		t.Errorf("%d records stored, want 800", len(f.stored()))
	}
}
