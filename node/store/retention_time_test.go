package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// aging is a store in simulated time: the true time, which the monotonic clock follows, and a clock
// that may be wrong.
type aging struct {
	*testing.T
	opt    Options
	s      *Store
	trueNs atomic.Int64
	offNs  atomic.Int64 // of the clock
	ages   map[int32]retention.Rule
	caps   map[int32][]int64 // of all that was put, by tenant
}

func newAging(t *testing.T, opt Options) *aging {
	a := &aging{T: t, opt: opt, ages: map[int32]retention.Rule{},
		caps: map[int32][]int64{}}
	a.trueNs.Store(20_000 * day)
	a.opt.Dir, a.opt.retainEvery, a.opt.idleAfter = t.TempDir(), time.Hour, time.Hour
	a.opt.Now = func() int64 { return a.trueNs.Load() + a.offNs.Load() }
	a.opt.monotonic = func() int64 { return a.trueNs.Load() - 19_000*day }
	a.s = openTest(t, a.opt)
	return a
}

func (a *aging) set(r retention.Rule) {
	a.Helper()
	if err := a.s.SetRetention(a.Context(), r); err != nil {
		a.Fatal(err)
	}
	a.ages[*r.CID] = r
}

// put stores rows of tenants captured now.
func (a *aging) put(tenants ...int32) {
	a.Helper()
	b := &record.Batch{}
	for _, cid := range tenants {
		k := record.Key{CID: cid, MID: int64(len(a.caps[cid]) % 7), CapNs: a.trueNs.Load()}
		b.Append(k, []byte("12345678"))
		a.caps[cid] = append(a.caps[cid], a.trueNs.Load())
	}
	mustPut(a.T, a.s, b, WriterSeq{})
}

// tick does what the background does in a minute.
func (a *aging) tick() {
	a.Helper()
	if err := a.s.advanceRetention(a.Context()); err != nil {
		a.Fatal(err)
	}
	if err := a.s.onCommitter(a.Context(), a.s.dropRemovableFromLog); err != nil {
		a.Fatal(err)
	}
	a.calm()
}

// calm waits until everything is sealed that is to be, and no merge is due.
func (a *aging) calm() {
	a.Helper()
	for a.s.hasImmutable() {
		runtime.Gosched()
	}
	done := make(chan error, 1)
	a.s.addWaiters(mergeWaiters{{done, false}})
	a.s.wakeMerger()
	if err := <-done; err != nil {
		a.Fatal(err)
	}
}

// visible counts the rows of a tenant that are to be seen.
func (a *aging) visible(cid int32) int {
	a.Helper()
	q := &record.Query{Box: boxOf(record.CID, int64(cid), int64(cid)+1)}
	n, _, err := a.s.Count(a.Context(), q)
	if err != nil {
		a.Fatal(err)
	}
	return int(n)
}

// stored counts the rows of a tenant that are in segments and heads, hidden ones included, and
// returns the least cap of those in segments.
func (a *aging) stored() (rows map[int32]int, oldest map[int32]int64) {
	a.Helper()
	rows, oldest = map[int32]int{}, map[int32]int64{}
	for _, sh := range a.s.allShards {
		state := sh.State.Load()
		m := &merger{store: a.s, run: state.Sealed}
		for _, late := range []bool{false, true} {
			err := m.eachBlock(late, func(int) error {
				var keys record.Batch
				sel := make([]uint32, m.reader.Block.Rows())
				for i := range sel {
					sel[i] = uint32(i)
				}
				if err := m.reader.Block.Gather(sel, true, &keys); err != nil {
					return err
				}
				for i, cid := range keys.CID {
					if rows[cid] == 0 || keys.CapNs[i] < oldest[cid] {
						oldest[cid] = keys.CapNs[i]
					}
					rows[cid]++
				}
				return nil
			})
			if err != nil {
				a.Fatal(err)
			}
		}
	}
	return rows, oldest
}

// latestAge is that at which the bytes of a row are gone by what the documents say: a tenth of
// the age, at most 30 days, and one and a half times the delay, after the age; and an hour for each
// of four steps, as these tests take one each hour, where a store does each minute.
func latestAge(r retention.Rule) int64 {
	p := retention.NewPolicy(&r)
	return r.MaxCapAgeNs + min(r.MaxCapAgeNs/10, 30*day) + p.Delay(r.MaxCapAgeNs)*3/2 + 4*hour
}

// Ten tenants share a segment and one expires: its bytes go, although few of all do.
func TestSmallTenantsBytesGo(t *testing.T) {
	a := newAging(t, Options{})
	for range 50 {
		a.put(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		a.trueNs.Add(minute)
	}
	mustSeal(t, a.s)
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 30 * day})
	end := a.caps[1][49] + latestAge(a.ages[1])
	doneNs := int64(math.MaxInt64 / 2) // by what the first event that has them all says
	for a.trueNs.Load() < end {
		a.trueNs.Add(hour)
		a.tick()
		rows, _ := a.stored()
		events := a.s.EventsWithRemovals()
		if doneNs == math.MaxInt64/2 && a.visible(1) == 0 && len(events) == 1 {
			doneNs = events[0].Removal.DoneNs
		}
		if rows[1] > 0 && a.trueNs.Load() > doneNs+hour {
			t.Fatalf("%d rows are left %v after the event said that all would be gone", rows[1],
				time.Duration(a.trueNs.Load()-doneNs))
		}
		if a.trueNs.Load() < a.caps[1][0]+33*day && rows[1] != 50 {
			t.Fatalf("%d rows are left after %v", rows[1],
				time.Duration(a.trueNs.Load()-a.caps[1][0]))
		}
	}
	rows, _ := a.stored()
	if rows[1] != 0 || rows[2] != 50 || a.visible(1) != 0 || a.s.Stats().Rows != 450 {
		t.Fatalf("%v, %+v", rows, a.s.Stats())
	}
	if merges := a.s.Stats().Merges; merges > 2 || doneNs > end {
		t.Fatalf("written %d times, the event says %v more than the latest", merges,
			time.Duration(doneNs-end))
	}
}

// Removable rows go in time also when no removal follows, because the age was made longer.
func TestRemovableRowsGoUnderALongerAge(t *testing.T) {
	a := newAging(t, Options{})
	for range 24 {
		a.put(1, 2)
		a.trueNs.Add(hour)
	}
	mustSeal(t, a.s)
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 10 * day})
	for a.trueNs.Load() < a.caps[1][23]+day*21/2 { // half of the delay after the last one expired
		a.pass(hour)
	}
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 1000 * day})
	seen := a.visible(1)
	if rows, _ := a.stored(); seen == 0 || seen == 24 || rows[1] != 24 {
		t.Fatalf("%d rows are to be seen, %d are stored", seen, rows[1])
	}
	for range 20 { // 7 percent of ten days and of the delay
		a.pass(hour)
		a.s = reopen(t, a.s, a.opt)
	}
	if rows, _ := a.stored(); rows[1] != seen || a.visible(1) != seen || rows[2] != 24 {
		t.Fatalf("%d rows are to be seen, %d before, %v are stored", a.visible(1), seen, rows)
	}
}

// What waits in the head of a quiet store goes, too, from memory and log.
func TestExpiredRowsLeaveTheLog(t *testing.T) {
	a := newAging(t, Options{})
	a.put(1, 2)
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 10 * day})
	for end := a.trueNs.Load() + latestAge(a.ages[1]); a.trueNs.Load() < end; a.trueNs.Add(hour) {
		a.tick()
	}
	st := a.s.Stats()
	if st.HeadRows != 0 || st.Rows != 1 || st.LogFiles != 1 {
		t.Fatalf("%+v", st)
	}
	rows, _ := a.stored()
	if rows[1] != 0 || rows[2] != 1 {
		t.Fatal(rows)
	}
}

// A model over months with a clock that jumps: no row is hidden before its age by the true time,
// none is removed before the delay, and all are gone by the latest time once the clock is right.
func TestRetentionsOutliveWrongClocks(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong has retentions, too")
	rng := randomSource(t)
	days, most := int64(15), 5*day
	if rounds.Long() {
		days, most = 200, 30*day
	}
	for round := range 2 {
		a := newAging(t, Options{SealRows: 200, Index: index.Options{BlockRows: 16}})
		for cid := range int32(4) {
			a.set(retention.Rule{CID: &cid, MaxCapAgeNs: day + rng.Int64N(most)})
		}
		for end := a.trueNs.Load() + days*day; a.trueNs.Load() < end; {
			a.clockEvent(rng)
			a.put(0, 1, 2, 3)
			a.check(false)
		}
		a.offNs.Store(0)
		for end := a.trueNs.Load() + day + most/4; a.trueNs.Load() < end; {
			a.pass(hour)
			if rng.IntN(6) == 0 {
				a.put(0, 1, 2, 3)
			}
		}
		a.check(true)
		if err := a.s.Close(); err != nil {
			t.Fatal(round, err)
		}
	}
}

// clockEvent lets time pass, mostly with a clock that is right, and at times with one that is wrong
// for less than ten minutes or a tenth of how wrong it is; the node may be started with it.
func (a *aging) clockEvent(rng *rand.Rand) {
	jumps := []int64{5 * int64(time.Second), 3 * minute, 10 * hour, 5 * day, 400 * day,
		30 * 365 * day}
	switch rng.IntN(8) {
	case 0: // off for a while
		a.s = reopen(a.T, a.s, a.opt)
	case 1, 2, 3: // wrong for a while
		jump := jumps[rng.IntN(len(jumps))]
		if rng.IntN(2) == 0 {
			jump = -jump
		}
		a.offNs.Store(jump)
		wrong := max(9*minute, min(max(jump, -jump)/20, 2*day))
		if rng.IntN(3) == 0 {
			a.s = reopen(a.T, a.s, a.opt)
		}
		for wrong > 0 {
			span := min(wrong, 1+rng.Int64N(8*hour))
			a.pass(span)
			wrong -= span
			if rng.IntN(20) == 0 {
				a.offNs.Store(jump/2 + int64(float64(jump)*rng.Float64()/2)) // another wrong time
			}
		}
		a.check(false)
		a.offNs.Store(0)
		a.pass(minute) // else the next wrong time would prolong this one
	default:
		for range 1 + rng.IntN(4) {
			a.pass(1 + rng.Int64N(3*hour))
		}
	}
}

func (a *aging) pass(spanNs int64) {
	a.trueNs.Add(spanNs)
	a.tick()
}

// check wants each row to be there that is not too old; with gone also that no other one is.
func (a *aging) check(gone bool) {
	a.Helper()
	rows, oldest := a.stored()
	for cid, r := range a.ages {
		young, kept := 0, 0
		for _, cap := range a.caps[cid] {
			if a.trueNs.Load()-cap < r.MaxCapAgeNs {
				young++
			}
			if a.trueNs.Load()-cap < r.MaxCapAgeNs+minDelayOf(r) {
				kept++
			}
		}
		what := fmt.Sprintf("tenant %d, clock off by %v", cid, time.Duration(a.offNs.Load()))
		if seen := a.visible(cid); seen < young {
			a.Fatalf("%s: %d rows are to be seen, %d are young enough", what, seen, young)
		}
		if all := rows[cid] + a.inHeads(cid); all < kept {
			a.Fatalf("%s: %d rows are stored, %d are to be kept", what, all, kept)
		}
		if gone && rows[cid] > 0 && a.trueNs.Load()-oldest[cid] > latestAge(r) {
			a.Fatalf("%s: a row of %v is stored, the age is %v, the latest %v", what,
				time.Duration(a.trueNs.Load()-oldest[cid]), time.Duration(r.MaxCapAgeNs),
				time.Duration(latestAge(r)))
		}
	}
}

func minDelayOf(r retention.Rule) int64 {
	p := retention.NewPolicy(&r)
	return p.Delay(r.MaxCapAgeNs)
}

// inHeads counts the rows of a tenant that heads show.
func (a *aging) inHeads(cid int32) (n int) {
	for _, sh := range a.s.allShards {
		state := sh.State.Load()
		var heads []*index.Head
		state.EachHead(func(h *index.Head) { heads = append(heads, h) })
		box := boxOf(record.CID, int64(cid), int64(cid)+1)
		for _, head := range heads {
			n += head.Count(&box, record.Acq.Max())
		}
	}
	return n
}
