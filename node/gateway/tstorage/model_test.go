package tstorage

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
)

// modelTimeVariable says how long TestModelLong goes on, as for the model of the store.
const modelTimeVariable = "PENTAD_GATEWAY_FOR"

// TestAgainstASlice stores random records in random batches, cut into random pieces on their way,
// and holds random boxes against a slice that has the same.
func TestAgainstASlice(t *testing.T) {
	puts := 40
	if testing.Short() {
		puts = 15
	}
	againstASlice(t, puts)
}

// TestModelLong does so again and again until its time is over.
func TestModelLong(t *testing.T) {
	text := os.Getenv(modelTimeVariable)
	if text == "" || testing.Short() {
		return // TestAgainstASlice is the short form
	}
	limit, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", modelTimeVariable, err)
	}
	for i, end := 0, time.Now().Add(limit); time.Now().Before(end) && !t.Failed(); i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) { againstASlice(t, 100) })
	}
}

func againstASlice(t *testing.T, puts int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := openNode(t, node.Options{Store: store.Options{SealRows: 2000, Shards: 4}})
	c := ttDial(t, serve(t, Options{Database: n}))
	var all []ttRecord // with the bounds of their acqs
	times := extremes()
	times = times[:len(times)-1]
	for i := range puts {
		records := randomRecords(rng, times)
		if i == puts/2 {
			if err := n.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for request := ttPut(false, records...); len(request) > 0; {
			n := min(1+rng.IntN(1+rng.IntN(20_000)), len(request))
			if _, err := c.Write(request[:n]); err != nil {
				t.Fatal(err)
			}
			request = request[n:]
		}
		least, most, st, err := c.putAnswer()
		if err != nil || st != 0 {
			t.Fatalf("put: status %d, %v", st, err)
		}
		if len(records) > 0 && most-least < int64(len(records)-1) {
			t.Fatalf("%d records have acqs from %d to %d", len(records), least, most)
		}
		all = append(all, records...)
		from, to := randomBox(rng, times)
		got, _, st, err := c.get(from, to)
		if err != nil || st != 0 {
			t.Fatalf("get %v %v: status %d, %v", from, to, st, err)
		}
		var want []ttRecord
		for _, r := range all {
			if from.cid <= r.cid && r.cid < to.cid && from.mid <= r.mid && r.mid < to.mid &&
				from.moid <= r.moid && r.moid < to.moid && from.cap <= r.cap && r.cap < to.cap {
				want = append(want, r)
			}
		}
		sameRecords(t, got, want)
	}
	sameRecords(t, mustGet(t, c), all)
}

func randomRecords(rng *rand.Rand, times []int64) []ttRecord {
	var out []ttRecord
	for range rng.IntN(8) {
		cid := rng.Int32N(3)
		for range rng.IntN(1 + rng.IntN(1500)) {
			r := ttRecord{ttKey{cid: cid, mid: rng.Int64N(300) - 150, moid: rng.Int32N(5) - 2,
				cap: rng.Int64N(1000)}, ""}
			if rng.IntN(10) == 0 {
				r.cap = times[rng.IntN(len(times))]
			}
			if rng.IntN(3) == 0 {
				r.payload = strings.Repeat("p", rng.IntN(20))
			}
			out = append(out, r)
		}
	}
	return out
}

func randomBox(rng *rand.Rand, times []int64) (from, to ttKey) {
	from, to = ttMin(), ttMax()
	if rng.IntN(2) == 0 {
		from.cid = rng.Int32N(3)
		to.cid = from.cid + 1
	}
	if rng.IntN(2) == 0 {
		from.mid = rng.Int64N(300) - 150
		to.mid = from.mid + 1 + rng.Int64N(100)
	}
	if rng.IntN(2) == 0 {
		to.moid = 1
	}
	if rng.IntN(2) == 0 {
		a, b := times[rng.IntN(len(times))], times[rng.IntN(len(times))]
		if a != b {
			from.cap, to.cap = min(a, b), max(a, b)
		}
	}
	return from, to
}

// TestFollowing follows the changes as clients do, from one GETACQ to the next, while others
// write: every record is seen once.
func TestFollowing(t *testing.T) {
	s := serve(t, Options{})
	const writers, puts = 4, 25
	var wg sync.WaitGroup
	var sent [writers][]ttRecord
	for w := range writers {
		c := ttDial(t, s)
		wg.Go(func() {
			for i := range int64(puts) {
				records := []ttRecord{at(int32(w), i, "a"), at(int32(w), i, "b"),
					at(int32(w+10), i, "c")}
				if _, _, st, err := c.put(false, records...); err != nil || st != 0 {
					t.Errorf("put: status %d, %v", st, err)
					return
				}
				sent[w] = append(sent[w], records...)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	c := ttDial(t, s)
	from, to := ttMin(), ttMax()
	var seen []ttRecord
	for last := false; ; {
		acq, st, err := c.getAcq(from, ttMax())
		if err != nil || st != 0 {
			t.Fatalf("getacq: status %d, %v", st, err)
		}
		if to.acq = acq; acq > from.acq {
			got, end, st, err := c.get(from, to)
			if err != nil || st != 0 || end != acq {
				t.Fatalf("get to %d: %d, status %d, %v", acq, end, st, err)
			}
			seen = append(seen, got...)
			from.acq = acq
		}
		if last {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	sameRecords(t, seen, slices.Concat(sent[:]...))
}

// TestMuchAtOnce has many clients with batches that together are far larger than the memory for
// them: all are stored, one after another where need be.
func TestMuchAtOnce(t *testing.T) {
	db := &fake{}
	s := serve(t, Options{Database: db, BufferBytes: 1 << 20})
	const clients, records = 12, 40
	var wg sync.WaitGroup
	for i := range clients {
		c := ttDial(t, s)
		wg.Go(func() {
			var all []ttRecord
			for k := range int64(records) {
				all = append(all, at(int32(i), k, strings.Repeat("x", 50_000)))
			}
			if _, _, st, err := c.put(false, all...); err != nil || st != 0 {
				t.Errorf("status %d, %v", st, err)
			}
		})
	}
	wg.Wait()
	if n := db.count(); n != clients*records {
		t.Errorf("%d records, not %d", n, clients*records)
	}
}

// TestLargeBatch stores more in one batch than one put of a node takes.
func TestLargeBatch(t *testing.T) {
	c := ttDial(t, serve(t, Options{}))
	var all []ttRecord
	for i := range int64(70_000) {
		all = append(all, at(1, i, "12345678"))
	}
	mustPut(t, c, all...)
	sameRecords(t, mustGet(t, c), all)
}

// TestVanishing cuts connections in the midst of random requests.
func TestVanishing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	db := &fake{}
	s := serve(t, Options{Database: db})
	for range 100 {
		c := ttDial(t, s)
		request := ttPut(false, at(1, 1, "a"), at(1, 2, "b"))
		if rng.IntN(3) == 0 {
			request = append(request, ttBox(1, ttMin(), ttMax())...)
		}
		if _, err := c.Write(request[:rng.IntN(len(request))]); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			_ = c.Conn.(*net.TCPConn).SetLinger(0) // a reset in place of an end
		}
		_ = c.Close()
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := db.count(); n%2 != 0 {
		t.Errorf("%d records: half a batch is stored", n)
	}
}
