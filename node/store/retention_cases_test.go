package store

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// A node is started 400 days ahead with a policy of 365 days, runs for a day and is put right:
// nothing is hidden or removed meanwhile, and the problem is to be seen.
func TestStartedAYearAhead(t *testing.T) {
	a := newAging(t, Options{SealRows: 100})
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 365 * day})
	for range 300 {
		a.put(1)
		a.pass(hour)
	}
	a.offNs.Store(400 * day)
	a.s = reopen(t, a.s, a.opt)
	for i := range 24 {
		a.pass(hour)
		rows, _ := a.stored()
		if seen := a.visible(1); seen != 300 || rows[1]+a.inHeads(1) != 300 {
			t.Fatalf("after %d h %d records are to be seen, %d are stored", i, seen, rows[1])
		}
		problems := a.s.Problems()
		if len(problems) != 1 || problems[0].Code != "retention_waits" ||
			!strings.Contains(problems[0].Message, "the clock is 9600h0m0s ahead") {
			t.Fatalf("%+v", problems)
		}
		a.s = reopen(t, a.s, a.opt)
		a.tick()
	}
	a.offNs.Store(0)
	a.pass(hour)
	if seen := a.visible(1); seen != 300 || len(a.s.Problems()) != 0 {
		t.Fatalf("%d records, %+v", seen, a.s.Problems())
	}
	a.pass(hour)
	lag := a.trueNs.Load() - 365*day - a.s.manifest.Policies[0].Cap.Hidden.FloorNs
	if lag > 365*day/50 {
		t.Fatalf("the policy is %v behind", time.Duration(lag))
	}
}

// group is two replicas and a log, in simulated time.
type group struct {
	*testing.T
	all    []*Store
	trueNs atomic.Int64
	index  uint64
}

func newGroup(t *testing.T) *group {
	g := &group{T: t}
	g.trueNs.Store(20_000 * day)
	for range 2 {
		g.all = append(g.all, openTest(t, Options{Dir: t.TempDir(), Group: testGroup,
			retainEvery: time.Hour, SealRows: 300, Now: func() int64 { return g.trueNs.Load() },
			monotonic: func() int64 { return g.trueNs.Load() },
			Index:     index.Options{BlockRows: 64}}))
	}
	return g
}

// propose applies a command everywhere, with the clock reading of the leader.
func (g *group) propose(clockNs int64, data []byte) {
	g.Helper()
	g.index++
	for _, s := range g.all {
		out, err := s.Apply(g.Context(), []Command{{g.index, clockNs, data}})
		if err != nil || out[0].Err != nil {
			g.Fatal(out, err)
		}
	}
}

// lead lets a replica take the steps that are due by what its clock reads.
func (g *group) lead(s *Store, r clock.Reading) {
	g.Helper()
	if step, due := s.RetentionStep(r); due {
		g.propose(r.NowNs, step)
	}
}

// want compares the records that are seen, and those that are stored, on each replica.
func (g *group) want(seen, stored int) {
	g.Helper()
	for i, s := range g.all {
		n, _, err := s.Count(g.Context(), &record.Query{})
		mustSettle(g.T, s)
		if rows := s.Stats().Rows; err != nil || int(n) != seen || int(rows) != stored {
			g.Fatalf("replica %d shows %d records and stores %d, want %d and %d: %v", i, n, rows,
				seen, stored, err)
		}
	}
}

// thousand stores records of the last 24 hours under a policy of 60 days.
func (g *group) thousand() {
	g.Helper()
	b := &record.Batch{}
	for i := range 1000 {
		k := record.Key{CID: 1, MID: int64(i), CapNs: g.trueNs.Load() - int64(i)*day/1000}
		b.Append(k, []byte("x"))
	}
	put, err := commands.AppendPut(nil, b, WriterSeq{})
	if err != nil {
		g.Fatal(err)
	}
	g.propose(g.trueNs.Load(), put)
	set, err := commands.AppendRetention(nil, retention.Rule{MaxCapAgeNs: 60 * day})
	if err != nil {
		g.Fatal(err)
	}
	g.propose(g.trueNs.Load(), set)
}

// A leader whose clock is a year ahead lets nothing expire, whether or not it has others to ask.
func TestLeaderAYearAhead(t *testing.T) {
	for _, others := range []bool{true, false} {
		g := newGroup(t)
		g.thousand()
		g.lead(g.all[0], clock.Reading{NowNs: g.trueNs.Load(), Confirmed: true, Others: others})
		for range 14 * 24 { // for two weeks
			g.trueNs.Add(hour)
			g.lead(g.all[1], clock.Reading{NowNs: g.trueNs.Load() + 365*day, Confirmed: !others,
				Others: others})
		}
		g.want(1000, 1000)
		g.trueNs.Add(minute) // another one leads, and is right
		g.lead(g.all[0], clock.Reading{NowNs: g.trueNs.Load(), Confirmed: true, Others: others})
		g.want(1000, 1000)
	}
}

// A group that has never known another time hides by the clock of a leader that is wrong; the delay
// leaves time to undo that on all replicas.
func TestUndoOnReplicas(t *testing.T) {
	g := newGroup(t)
	g.thousand()
	g.lead(g.all[0], clock.Reading{NowNs: g.trueNs.Load() + 365*day, Confirmed: true})
	for range 71 {
		g.trueNs.Add(hour)
		g.lead(g.all[0], clock.Reading{NowNs: g.trueNs.Load() + 365*day, Confirmed: true})
	}
	g.want(0, 1000)
	for _, h := range []retention.Hold{{Action: retention.HoldSteps},
		{Action: retention.HoldUndo}} {
		command, err := commands.AppendHold(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		g.propose(g.trueNs.Load(), command)
		g.trueNs.Add(10 * day)
		g.want(map[retention.Action]int{retention.HoldSteps: 0, retention.HoldUndo: 1000}[h.Action],
			1000)
	}
	resume, err := commands.AppendHold(nil,
		retention.Hold{Action: retention.HoldResume, TimeNs: g.trueNs.Load()})
	if err != nil {
		t.Fatal(err)
	}
	g.propose(g.trueNs.Load(), resume)
	for range 35 { // until the records are 59 days old
		g.trueNs.Add(day)
		g.lead(g.all[1], clock.Reading{NowNs: g.trueNs.Load(), Confirmed: true})
	}
	g.want(1000, 1000)
	for range 20 * 24 {
		g.trueNs.Add(hour)
		g.lead(g.all[1], clock.Reading{NowNs: g.trueNs.Load(), Confirmed: true})
	}
	g.trueNs.Add(3 * day) // the spread is over
	g.want(0, 0)
}

// A store that took no step yet is opened with a clock without a battery: steps do not go on from
// what that reads.
func TestEvidenceOfAFirstStep(t *testing.T) {
	a := newAging(t, Options{})
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 10 * day})
	a.put(1)
	a.offNs.Store(-30 * 365 * day)
	a.s = reopen(t, a.s, a.opt)
	a.pass(hour)
	a.offNs.Store(0)
	for end := a.trueNs.Load() + latestAge(a.ages[1]); a.trueNs.Load() < end; {
		a.pass(hour)
	}
	if rows, _ := a.stored(); rows[1]+a.inHeads(1) != 0 {
		t.Fatalf("%d rows are stored", rows[1]+a.inHeads(1))
	}
}
