package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// plan is how much is asked for; all of it is done.
type plan struct {
	faults  int
	records int
	lasts   time.Duration
	seed    uint64
	nodes   int
}

// planOf reads what PENTAD_FAULTS and others ask for; without them it is the short form.
func planOf(t *testing.T) plan {
	t.Helper()
	number := func(name string, none uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return none
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	faults := uint64(8)
	if testing.Short() {
		faults = 4
	}
	p := plan{faults: int(number("PENTAD_FAULTS", faults)),
		records: int(number("PENTAD_RECORDS", 0)),
		seed:    number("PENTAD_SEED", uint64(time.Now().UnixNano())), nodes: int(number(
			"PENTAD_NODES", 3))}
	if text := os.Getenv("PENTAD_FOR"); text != "" {
		var err error
		if p.lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("PENTAD_FOR: %v", err)
		}
	}
	return p
}

const (
	roamers     = 3
	steadies    = 2
	feedReaders = 2

	faultsOfSplit = 6 // from one split of a group to the next

	// Of writers, and of users of registers at most, in the short form: more records meet no other
	// faults.
	pauseOfShortForm     = 40 * time.Millisecond
	pauseOfShortRegister = 200 * time.Millisecond
	pauseOfRegister      = 60 * time.Millisecond
)

// TestClusterOutlivesFaults starts a cluster of processes, writes to it, reads from it and follows
// it while one fault comes after another, and then holds every replica against what was answered.
func TestClusterOutlivesFaults(t *testing.T) {
	p := planOf(t)
	t.Logf("PENTAD_SEED=%d", p.seed)
	f := newFarm(t, p.nodes)
	defer func() {
		if t.Failed() {
			f.tell()
		}
	}()
	can := f.possible()
	l := &load{f: f, history: newHistory(), registerPause: pauseOfRegister}
	if p.records == 0 && p.lasts == 0 {
		l.pause, l.registerPause = pauseOfShortForm, pauseOfShortRegister
	}
	finish := l.begin(t, p)
	began := time.Now()
	counts, deck := map[string]int{}, deck{}
	rng := rand.New(rand.NewPCG(p.seed, 1))
	for done := 0; ; done++ {
		acked, _ := l.history.records()
		if done >= p.faults && acked >= p.records && time.Since(began) >= p.lasts {
			break
		}
		if done%faultsOfSplit == 1 {
			f.split(rng)
		}
		if done < p.faults || p.records > 0 || p.lasts > 0 {
			counts[f.strike(rng, deck.draw(rng, can))]++
		}
		l.goesOn()
		pause(t, time.Duration(rng.IntN(1500))*time.Millisecond)
	}
	found := finish()
	found = append(found, f.logged("\npanic: ", "BUG:", "\nfatal error: ", "quarantine",
		"takes no part any more")...)
	if len(found) == 0 {
		found = l.flipBits(t.Context(), rng)
		found = append(found, f.logged("\npanic: ", "BUG:", "\nfatal error: ")...)
	}
	for _, wrong := range found {
		t.Error(wrong)
	}
	l.report(counts, time.Since(began))
	for _, x := range can {
		if done := deck.drawn; done >= len(can) && counts[x.name] == 0 {
			t.Errorf("of %d faults none was: %s", done, x.name)
		}
	}
}

// goesOn waits until a put is answered after a fault: no cluster may stay down.
func (l *load) goesOn() {
	l.f.Helper()
	before, _ := l.history.records()
	l.f.until("a put is answered", func() bool {
		now, _ := l.history.records()
		return now > before
	})
}

// begin starts all clients. What it returns ends them and holds what is there against what was
// answered.
func (l *load) begin(t *testing.T, p plan) (finish func() []string) {
	ctx, cancel := context.WithCancel(context.Background())
	stop, halt := context.WithCancel(ctx)
	t.Cleanup(cancel)
	random := func(of uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, of)) }
	var writing, reading sync.WaitGroup
	for i := range int32(roamers) {
		writing.Go(func() { l.roam(ctx, stop, i+1, random(uint64(i)+10)) })
	}
	for i := range int32(steadies) {
		one := l.f.client(int(i) % len(l.f.nodes))
		writing.Go(func() { l.steady(ctx, stop, roamers+i+1, one) })
	}
	e := &erasures{}
	writing.Go(func() { l.erase(ctx, stop, e, random(20)) })
	writing.Go(func() { l.register(ctx, stop, p.seed) })
	reading.Go(func() { l.heart.beat(stop) })
	reading.Go(func() { l.read(stop, roamers+steadies, random(30)) })
	feeds := make([]*feedReader, feedReaders)
	for i := range feeds {
		feeds[i] = &feedReader{tally: newTally(fmt.Sprint("feed ", i))}
		reading.Go(func() { feeds[i].follow(stop, l.f, record.Acq.Max(), random(40+uint64(i))) })
	}
	t.Cleanup(reading.Wait)
	t.Cleanup(writing.Wait)
	t.Cleanup(cancel)
	return func() []string {
		halt()
		l.f.note("writers stop")
		over := make(chan struct{})
		writing.Go(func() { reading.Wait() })
		go func() {
			writing.Wait()
			close(over)
		}()
		l.f.until("all writers have their answers", func() bool {
			select {
			case <-over:
				return true
			default:
				return false
			}
		})
		return l.truth(ctx, e, feeds, random(50))
	}
}

// truth reads everything from every replica and compares.
func (l *load) truth(
	ctx context.Context, e *erasures, feeds []*feedReader, rng *rand.Rand,
) (wrong []string) {
	f := l.f
	f.until("the cluster is well", f.settled)
	_, _, lastNs := l.history.at(1)
	places := f.replicas()
	l.places, l.parts, l.lastNs = places, f.parts(), lastNs
	whole := newTally("all replicas")
	greatestNs := lastNs // also of what was stored when its writer had been stopped
	for g, nodes := range places {
		var first *tally
		for _, i := range nodes {
			t := newTally(fmt.Sprintf("group %d on node %d", g, i))
			acqs := l.readReplica(ctx, g, i, lastNs, t)
			wrong = append(wrong, t.wrong...)
			wrong = append(wrong, risesStrictly(t.name, acqs)...)
			if len(acqs) > 0 {
				greatestNs = max(greatestNs, acqs[len(acqs)-1])
			}
			if first == nil {
				first = t
				l.groups = append(l.groups, t)
				whole.join(t)
			} else {
				wrong = append(wrong, t.sameAs(first)...)
			}
		}
	}
	wrong = append(wrong, whole.compare(l.history)...)
	for i, r := range feeds {
		end, cancel := context.WithTimeout(ctx, 4*healTimeout)
		r.follow(end, f, greatestNs+1, rng)
		if end.Err() != nil {
			wrong = append(wrong, fmt.Sprintf("feed %d is at acq %d and not at %d after %s", i,
				r.closedNs, greatestNs, 4*healTimeout))
		}
		cancel()
		wrong = append(wrong, r.tally.sameAs(whole)...)
		wrong = append(wrong, r.tally.wrong...)
	}
	for i := range f.nodes {
		wrong = append(wrong, l.readErased(ctx, e, i, lastNs)...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(wrong, l.wrong...)
}

// readReplica reads all of one replica, as of an acq at least.
func (l *load) readReplica(ctx context.Context, g, i int, lastNs int64, t *tally) (acqs []int64) {
	l.f.Helper()
	c := l.f.client(i).OfParts(l.parts[g : g+1]).After(lastNs)
	defer func() { _ = c.Close() }()
	l.f.until("a replica can be read", func() bool {
		*t, acqs = *newTally(t.name), nil
		end, err := c.Scan(ctx, &record.Query{}, func(b *record.Batch) error {
			for k := range b.Len() {
				t.add(b.Key(k), b.Payload(k))
				acqs = append(acqs, b.AcqNs[k])
			}
			return nil
		})
		if err != nil {
			l.f.note("group %d on node %d: %v", g, i, err)
		}
		return err == nil && end.Complete
	})
	return acqs
}

// readErased holds what a node shows of erased readings against what was answered.
func (l *load) readErased(ctx context.Context, e *erasures, i int, lastNs int64) []string {
	l.f.Helper()
	c := l.f.client(i).After(lastNs)
	defer func() { _ = c.Close() }()
	var counts [2][]int
	l.f.until("a node shows what is left of erased readings", func() bool {
		counts = [2][]int{make([]int, len(e.rounds)), make([]int, len(e.rounds))}
		q := &record.Query{View: record.ViewLatest}
		q.Box[record.CID] = record.RangeSet{record.At(eraserTenant)}
		for r, err := range c.Query(ctx, q) {
			if err != nil {
				return false
			}
			if r.CapNs <= int64(len(e.rounds)) {
				counts[r.MOID-1][r.CapNs-1]++
			}
		}
		return true
	})
	return e.hold(fmt.Sprint("node ", i), counts[0], counts[1])
}

// report prints what was done.
func (l *load) report(counts map[string]int, took time.Duration) {
	acked, unknown := l.history.records()
	names := make([]string, 0, len(counts))
	all := 0
	for name, n := range counts {
		names = append(names, fmt.Sprintf("%s %d", name, n))
		all += n
	}
	sort.Strings(names)
	l.f.Logf("%d faults in %s: %s", all, took.Round(time.Second), strings.Join(names, ", "))
	l.f.Logf("%d records acknowledged in %d groups, of which there were %d; %d records without an "+
		"answer; %d queries and %d histories of registers held; %d errors of nodes outlived",
		acked, len(l.places), groupsOfFarm, unknown, l.asked.Load(), l.histories.Load(),
		l.errors.Load())
	if acked == 0 || l.asked.Load() == 0 || l.histories.Load() == 0 {
		l.f.Error("nothing was acknowledged or read: nothing was tested")
	}
	if len(l.places) == groupsOfFarm {
		l.f.Error("no group was split")
	}
}
