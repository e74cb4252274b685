package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// victimCall in the environment makes the test program write to a store until it is killed: the
	// next sequence of each writer, and the directory.
	victimCall   = "PENTAD_STORE_VICTIM"
	victimRows   = 60
	victimWindow = 8 // batches that a writer has in flight
	victimPurged = 2 // the tenant, beside those of the two writers, that is purged all the time
	victimBelow  = 3 // the tenant whose rows are backdated
)

func victimOptions(dir string) Options {
	return Options{Dir: dir, Shards: 4, SealRows: 700, LogFiles: 1, HeadBytes: 1 << 20,
		PutWait: 5 * time.Minute, HeadShards: 1 + rand.IntN(7), sideBySideRows: victimRows / 2}
}

func victimBatch(writer int, seq uint64) *record.Batch {
	b := &record.Batch{}
	for i := range victimRows {
		b.Append(record.Key{CID: int32(writer), MID: int64(i) << 8, CapNs: int64(seq)},
			fmt.Append(nil, seq, i))
	}
	return b
}

// putBelowAgain puts a batch of rows that share acqs of the hour before it began.
func putBelowAgain(s *Store, began int64, number int64) error {
	b := &record.Batch{}
	for i := range int64(victimRows) {
		b.AppendStamped(record.Key{CID: victimBelow, MID: i << 8, CapNs: began + number,
			AcqNs: began - int64(time.Hour) + number%9 + i%5}, fmt.Append(nil, number, i))
	}
	_, err := s.PutBackdated(context.Background(), b)
	return err
}

// victim puts batches from the given sequences on, by two writers with many in flight each, seals
// subtract end, and says what was acknowledged.
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
	failed := make(chan error, 2*victimWindow+3)
	for w := range next {
		window := newWindow(next[w])
		for range victimWindow {
			wg.Go(func() {
				for {
					n := window.begin()
					res, err := s.Put(context.Background(), victimBatch(w, n),
						WriterSeq{ID: [16]byte{byte(w + 1)}, Seq: n})
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
			acq, err := purgeSome(s)
			if err != nil {
				failed <- err
				return
			}
			mu.Lock()
			fmt.Println(victimPurged, 0, acq)
			mu.Unlock()
		}
	})
	wg.Go(func() {
		began := time.Now().UnixNano()
		for n := int64(0); ; n++ {
			if err := putBelowAgain(s, began, n); err != nil {
				failed <- err
				return
			}
			mu.Lock()
			fmt.Println(victimBelow, began+n, 0)
			mu.Unlock()
		}
	})
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

// purgeSome puts rows of a tenant of their own and purges them.
func purgeSome(s *Store) (int64, error) {
	_, err := s.Put(context.Background(), victimBatch(victimPurged, 1), WriterSeq{})
	if err != nil {
		return 0, err
	}
	return s.Purge(context.Background(), boxOf(record.CID, victimPurged, victimPurged+1))
}

// window gives out sequences so that all in flight lie within victimWindow of each other.
type window struct {
	mu        sync.Mutex
	moved     sync.Cond
	next, low uint64 // the next to give out; the lowest that is in progress
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
// writer and sequence the first acq, the acq of the last purge, and the caps of rows put below the
// horizon.
func runVictim(
	t *testing.T, dir string, next [2]uint64, acks int,
) (acked [2]map[uint64]int64, purged int64, below []int64) {
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
	for n := 0; lines.Scan(); {
		var w int
		var seq uint64
		var acq int64
		if _, err := fmt.Sscan(lines.Text(), &w, &seq, &acq); err != nil {
			break // half a line, the last
		}
		if w == victimPurged {
			purged = acq
			continue
		}
		if w == victimBelow {
			below = append(below, int64(seq))
			continue
		}
		acked[w][seq] = acq
		if n == acks {
			_ = cmd.Process.Kill() // what it said meanwhile is read on
		}
		n++
	}
	_ = cmd.Wait()
	if len(acked[0])+len(acked[1]) < acks {
		t.Fatalf("the victim ended after %d batches by itself", len(acked[0])+len(acked[1]))
	}
	return acked, purged, below
}

// Processes are killed at any moment of commits, seals, purges and deletions of the log, one after
// another on one directory: what was acknowledged is there once, with the answer it got, and so is
// what is put again; what was purged is not.
func TestKilledWhileSealing(t *testing.T) {
	rounds.NotUnderRace(t, "other tests put, purge and seal at once")
	rng := randomSource(t)
	dir := t.TempDir()
	next, below := [2]uint64{1, 1}, []int64(nil)
	for range rounds.Of(6, 3, 3) {
		acked, purged, came := runVictim(t, dir, next, 1+rng.IntN(300))
		below = append(below, came...)
		s := openTest(t, victimOptions(dir))
		for _, r := range scanRows(t, s, &record.Query{Box: boxOf(record.CID, victimPurged,
			victimPurged+1)}) {
			if r.key.AcqNs < purged {
				t.Fatalf("%+v was purged at %d", r.key, purged)
			}
		}
		checkBelow(t, s, below)
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
		waitPurged(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkBelow wants the batches that were put below the horizon to be there, and none in parts.
func checkBelow(t *testing.T, s *Store, caps []int64) {
	t.Helper()
	found := map[int64]int{}
	for _, r := range scanRows(t, s, &record.Query{Box: boxOf(record.CID, victimBelow,
		victimBelow+1)}) {
		found[r.key.CapNs]++
	}
	for _, capNs := range caps {
		if found[capNs] == 0 {
			t.Fatalf("of %d batches below the horizon, that of cap %d is lost", len(caps), capNs)
		}
	}
	for capNs, rows := range found {
		if rows != victimRows {
			t.Fatalf("%d rows of a batch of %d with cap %d", rows, victimRows, capNs)
		}
	}
}

// putAgain puts all batches that may have been in flight and returns the sequence after them.
func putAgain(t *testing.T, s *Store, w int, from uint64, acked map[uint64]int64) uint64 {
	t.Helper()
	end := from + victimWindow
	for seq := range acked {
		end = max(end, seq+1+victimWindow)
	}
	for seq := max(from, end-min(end, writers.MaxResults)); seq < end; seq++ {
		res := mustPut(t, s, victimBatch(w, seq), WriterSeq{ID: [16]byte{byte(w + 1)}, Seq: seq})
		if first, ok := acked[seq]; ok && (first != res.FirstAcqNs || !res.Duplicate) {
			t.Fatalf("writer %d: batch %d was acknowledged at %d, now %+v", w, seq, first, res)
		}
	}
	return end
}
