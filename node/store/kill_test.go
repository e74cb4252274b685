package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// victimCall in the environment makes the test program write to a store until it is killed: the
	// next sequence of each writer, and the directory.
	victimCall   = "PENTAD_STORE_VICTIM"
	victimRows   = 60
	victimWindow = 8 // batches that a writer has in flight
)

func victimOptions(dir string) Options {
	return Options{Dir: dir, Shards: 4, SealRows: 700, LogFiles: 1, HeadMax: 1 << 20}
}

func victimBatch(writer int, seq uint64) *record.Batch {
	b := &record.Batch{}
	for i := range victimRows {
		b.Append(record.Key{CID: int32(writer), MID: int64(i) << 6, CapNs: int64(seq)},
			fmt.Append(nil, seq, i))
	}
	return b
}

// victim puts batches from the given sequences on, by two writers with many in flight each, seals
// without end, and says what was acknowledged.
func victim(call string) error {
	var next [2]uint64
	var dir string
	if _, err := fmt.Sscan(call, &next[0], &next[1], &dir); err != nil {
		return err
	}
	s, _, err := Open(context.Background(), victimOptions(dir))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	failed := make(chan error, 2*victimWindow+1)
	for w := range next {
		window := newWindow(next[w])
		for range victimWindow {
			wg.Go(func() {
				for {
					n := window.begin()
					res, err := s.Put(context.Background(), victimBatch(w, n),
						WriterSeq{[16]byte{byte(w + 1)}, n})
					if err != nil {
						failed <- err
						return
					}
					mu.Lock()
					fmt.Println(w, n, res.FirstAcqNs)
					mu.Unlock()
					window.end(n)
				}
			})
		}
	}
	wg.Go(func() {
		for {
			if err := s.Seal(context.Background()); err != nil {
				failed <- err
				return
			}
		}
	})
	return <-failed
}

// window gives out sequences so that all under way lie within victimWindow of each other.
type window struct {
	mu        sync.Mutex
	moved     sync.Cond
	next, low uint64 // the next to give out; the lowest that is under way
	done      map[uint64]bool
}

func newWindow(first uint64) *window {
	w := &window{next: first, low: first, done: map[uint64]bool{}}
	w.moved.L = &w.mu
	return w
}

func (w *window) begin() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.next
	w.next++
	for n >= w.low+victimWindow {
		w.moved.Wait()
	}
	return n
}

func (w *window) end(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[n] = true
	for w.done[w.low] {
		delete(w.done, w.low)
		w.low++
	}
	w.moved.Broadcast()
}

// runVictim starts a victim, kills it after some acknowledgements and returns what it said: per
// writer and sequence the first acq.
func runVictim(t *testing.T, dir string, next [2]uint64, acks int) (acked [2]map[uint64]int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s", victimCall, next[0], next[1], dir))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked = [2]map[uint64]int64{{}, {}}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var w int
		var seq uint64
		var acq int64
		if _, err := fmt.Sscan(lines.Text(), &w, &seq, &acq); err != nil {
			break // half a line, the last
		}
		acked[w][seq] = acq
		if n == acks {
			_ = cmd.Process.Kill() // what it said meanwhile is read on
		}
	}
	_ = cmd.Wait()
	if len(acked[0])+len(acked[1]) < acks {
		t.Fatalf("the victim ended after %d batches by itself", len(acked[0])+len(acked[1]))
	}
	return acked
}

// Processes are killed at any moment of commits, seals and releases of the log, one after another
// on one directory: what was acknowledged is there once, with the answer it got, and so is what is
// put again.
func TestKilledWhileSealing(t *testing.T) {
	rng := randomSource(t)
	dir := t.TempDir()
	kills := 6
	if testing.Short() {
		kills = 3
	}
	next := [2]uint64{1, 1}
	for range kills {
		acked := runVictim(t, dir, next, 1+rng.IntN(300))
		s := openTest(t, victimOptions(dir))
		for w := range next {
			next[w] = putAgain(t, s, w, next[w], acked[w])
			q := &record.Query{}
			q.Box[record.CID] = record.RangeSet{record.At(int64(w))}
			rows := scanRows(t, s, q)
			seen := map[record.Key]bool{}
			for _, r := range rows {
				seen[record.Key{MID: r.key.MID, CapNs: r.key.CapNs}] = true
			}
			want := int(next[w]-1) * victimRows
			if len(rows) != want || len(seen) != want {
				t.Fatalf("writer %d: %d rows, %d different, want %d", w, len(rows), len(seen), want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// putAgain puts all batches that may have been under way and returns the sequence after them.
func putAgain(t *testing.T, s *Store, w int, from uint64, acked map[uint64]int64) uint64 {
	t.Helper()
	end := from + victimWindow
	for seq := range acked {
		end = max(end, seq+1+victimWindow)
	}
	for seq := max(from, end-min(end, maxAnswers)); seq < end; seq++ {
		res := mustPut(t, s, victimBatch(w, seq), WriterSeq{[16]byte{byte(w + 1)}, seq})
		if first, ok := acked[seq]; ok && (first != res.FirstAcqNs || !res.Duplicate) {
			t.Fatalf("writer %d: batch %d was acknowledged at %d, now %+v", w, seq, first, res)
		}
	}
	return end
}
