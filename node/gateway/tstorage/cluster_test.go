package tstorage

import (
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
)

// openThree opens a cluster of three nodes, and a gateway before each.
func openThree(t *testing.T) (gateways []*Server) {
	t.Helper()
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	first := freeaddr.New(t)
	for i := range 3 {
		opt := node.Options{Listen: "127.0.0.1:0",
			Fail: func(err error) { t.Errorf("node %d must end: %v", i, err) },
			Cluster: cluster.Config{TokenFile: file, RaftBind: freeaddr.New(t),
				Bind: freeaddr.New(t), Zone: fmt.Sprint("z", i)}}
		if i == 0 {
			opt.Cluster.Init, opt.Cluster.Groups, opt.Cluster.Bind = true, 4, first
		} else {
			opt.Cluster.Join = []string{first}
		}
		gateways = append(gateways, serve(t, Options{Database: openNode(t, opt)}))
	}
	for i, s := range gateways {
		untilAnswered(t, func() bool {
			_, _, st, err := ttDial(t, s).put(false, ttRecord{ttKey: ttKey{cid: 9, mid: int64(i)}})
			return err == nil && st == 0
		})
		began := time.Now().UnixNano() - epochNs
		untilAnswered(t, func() bool {
			acq, st, err := ttDial(t, s).getAcq(ttMin(), ttMax())
			return err == nil && st == 0 && acq > began
		})
	}
	return gateways
}

// untilAnswered tries until it works: elections may take longer than a request waits.
func untilAnswered(t *testing.T, try func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(5 * time.Minute) // a slow machine is no failure
	for !try() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("waited five minutes for an answer")
		}
	}
}

// TestGetOfAClusterFromTheAcqOfAPut: a client that was answered an acq finds what it put there, at
// once, through the same node and the others.
func TestGetOfAClusterFromTheAcqOfAPut(t *testing.T) {
	t.Parallel()
	gateways := openThree(t)
	var clients []*ttClient
	for _, s := range gateways {
		clients = append(clients, ttDial(t, s))
	}
	for i := range int64(12) {
		mine := ttRecord{ttKey: ttKey{cid: 1, mid: i << 8, moid: 1, cap: i}, payload: "mine"}
		var most int64
		puts := 0 // one that was given up may have been stored, too, or will be
		untilAnswered(t, func() bool {
			var st int32
			var err error
			puts++
			_, most, st, err = clients[i%3].put(false, mine)
			if err != nil || st != 0 && !ttAgain(st) {
				t.Fatalf("put %d: status %d, %v", i, st, err)
			}
			return st == 0
		})
		reader := clients[i%3] // by turns the same connection, one of its node, another node
		switch i / 3 % 3 {
		case 1:
			reader = ttDial(t, gateways[i%3])
		case 2:
			reader = clients[(i+1)%3]
		}
		from := ttMin()
		from.acq = most
		untilAnswered(t, func() bool {
			got, acq, st, err := reader.get(from, ttMax())
			if err == nil && ttAgain(st) {
				return false
			}
			if err != nil || st != 0 || len(got) == 0 || len(got) > puts ||
				got[0].mid != i<<8 || acq <= most {
				t.Fatalf("get %d from acq %d: %v, acq %d, status %d, %v", i, most, got, acq, st,
					err)
			}
			return true
		})
	}
}

// ttAgain reports whether a status says that the same request may succeed later, as that of a group
// without a leader.
func ttAgain(st int32) bool { return st == stRetry || st == stTimeout || st == stInactive }

// TestLongBatchOfACluster stores a batch in pieces through one node and reads it through another.
// A PUTA is refused, whatever its size: groups stamp what they take.
func TestLongBatchOfACluster(t *testing.T) {
	rounds.NotUnderRace(t, "its work is that of TestLongBatches, over a cluster")
	t.Parallel()
	gateways := openThree(t)
	const buffer = 2 << 20
	little := serve(t, Options{Database: gateways[0].opt.Database, BufferBytes: buffer,
		PutA: PutAAny})
	few, many := &long{cid: 1, records: 12, payload: 1 << 20}, &long{cid: 2, records: 40_000,
		payload: 30}
	c := ttDial(t, little)
	for _, l := range []*long{few, many} {
		l.send(t, c)
		l.check(t, ttDial(t, little), 1)
		l.check(t, ttDial(t, gateways[1]), 1)
	}
	if most := little.budget.Most(); most > 2*buffer {
		t.Errorf("%d bytes of the budget were taken, and it has %d", most, buffer)
	}
	var all []ttRecord
	for i := range int64(100) {
		all = append(all, stampedAt(3, i, 55555, strings.Repeat("x", 30_000)))
	}
	if _, _, st, err := c.put(true, all...); err != nil || st != stNoPerm {
		t.Errorf("PUTA: status %d, want %d, %v", st, stNoPerm, err)
	}
	many.check(t, c, 1)
}

// answered asks until there is an answer or an error that lasts, as within an election, and reports
// whether there is an answer. It may be called from any goroutine of a test.
func answered(t *testing.T, what string, ask func() (st int32, err error)) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); ; <-tick.C {
		st, err := ask()
		switch {
		case err == nil && st == 0:
			return true
		case err != nil || !ttAgain(st) || time.Now().After(deadline):
			t.Errorf("%s: status %d, %v", what, st, err)
			return false
		}
	}
}

// TestFollowersOfACluster follow what others put by the acqs of their GETs, and by GETACQ, through
// all nodes in turn, and meet each record once. A put that was given up for now is sent again: it
// may be stored twice then, and is met as often.
func TestFollowersOfACluster(t *testing.T) {
	t.Parallel()
	gateways := openThree(t)
	const writers, puts, rows = 2, 60, 10
	var lasts [writers]int64
	var again atomic.Int64 // puts that were sent again
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			c := ttDial(t, gateways[w])
			for p := range int64(puts) {
				var some []ttRecord
				for i := range int64(rows) {
					some = append(some, ttRecord{ttKey: ttKey{cid: 1, mid: i << 8, moid: int32(w),
						cap: p}, payload: "x"})
				}
				tries := int64(0)
				if !answered(t, "put", func() (st int32, err error) {
					tries++
					_, lasts[w], st, err = c.put(false, some...)
					return st, err
				}) {
					return
				}
				again.Add(tries - 1)
			}
		})
	}
	written := make(chan struct{})
	var followers sync.WaitGroup
	for byGetAcq := range 2 {
		followers.Go(func() {
			met := map[ttKey]int{}
			from, to := ttMin(), ttMax()
			from.cid, to.cid = 1, 2
			for turn := byGetAcq; ; turn++ {
				last := int64(math.MaxInt64)
				select {
				case <-written:
					last = max(lasts[0], lasts[1])
				default:
				}
				if from.acq > last {
					break
				}
				next, ok := follow(t, gateways[turn%3], from, to, byGetAcq == 1, met)
				if !ok {
					return
				}
				from.acq = next
			}
			put := map[ttKey]bool{} // by keys without acq
			for k, times := range met {
				if times != 1 {
					t.Errorf("by GETACQ %d: %v came %d times", byGetAcq, k, times)
				}
				k.acq = 0
				put[k] = true
			}
			twice := len(met) - len(put)
			if len(put) != writers*puts*rows || twice > int(again.Load())*rows {
				t.Errorf("by GETACQ %d: %d records, want %d; %d more than once, %d puts were "+
					"sent again", byGetAcq, len(put), writers*puts*rows, twice, again.Load())
			}
		})
	}
	wg.Wait()
	close(written)
	followers.Wait()
}

// follow asks for the next stretch of acqs.
func follow(
	t *testing.T, s *Server, from, to ttKey, byGetAcq bool, met map[ttKey]int,
) (next int64, ok bool) {
	c := ttDial(t, s)
	defer func() { _ = c.Close() }()
	if byGetAcq {
		var acq int64
		if !answered(t, "GETACQ", func() (st int32, err error) {
			acq, st, err = c.getAcq(ttKey{from.cid, from.mid, from.moid, from.cap, math.MinInt64},
				to)
			return st, err
		}) {
			return 0, false
		}
		if acq <= from.acq {
			return from.acq, true
		}
		to.acq = acq
	}
	var got []ttRecord
	var acq int64
	if !answered(t, "GET", func() (st int32, err error) {
		got, acq, st, err = c.get(from, to)
		return st, err
	}) {
		return 0, false
	}
	for _, r := range got {
		if r.acq < from.acq || r.acq >= acq {
			t.Errorf("a GET from acq %d that answers %d has a record at %d", from.acq, acq, r.acq)
		}
		met[r.ttKey]++
	}
	if byGetAcq {
		return to.acq, true
	}
	return acq, true
}
