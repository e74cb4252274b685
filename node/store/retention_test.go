package store

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

const hour = int64(time.Hour)

// aged is a store with a clock of its own, and rows of two tenants, one an hour.
type aged struct {
	*testing.T
	opt  Options
	wall atomic.Int64
	s    *Store
}

func newAged(t *testing.T) *aged {
	a := &aged{T: t}
	a.wall.Store(time.Now().UnixNano())
	a.opt = Options{Dir: t.TempDir(), Now: a.wall.Load, retainEvery: time.Hour,
		monotonic: a.wall.Load}
	a.s = openTest(t, a.opt)
	return a
}

// hourly puts a row of each tenant in each of the next hours.
func (a *aged) hourly(hours int) {
	a.Helper()
	for range hours {
		a.wall.Add(hour)
		now := a.wall.Load()
		mustPut(a.T, a.s, batchOf(record.Key{CID: 1, CapNs: now}, record.Key{CID: 2, CapNs: now}),
			WriterSeq{})
	}
}

func (a *aged) set(r retention.Rule) {
	a.Helper()
	if err := a.s.SetRetention(a.Context(), r); err != nil {
		a.Fatal(err)
	}
}

func (a *aged) advance() {
	a.Helper()
	if err := a.s.advanceRetention(a.Context()); err != nil {
		a.Fatal(err)
	}
}

// want wants so many rows of a tenant, in every view.
func (a *aged) want(cid int32, rows int) {
	a.Helper()
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		q := &record.Query{Box: boxOf(record.CID, int64(cid), int64(cid)+1), View: view}
		if got := len(scanRows(a.T, a.s, q)); got != rows {
			a.Fatalf("%d rows of tenant %d, want %d", got, cid, rows)
		}
	}
}

func tenant(cid int32) *int32 { return &cid }

// A policy hides what is too old at once, and more of it step by step; other tenants keep all.
func TestRetentionSteps(t *testing.T) {
	a := newAged(t)
	a.hourly(20)
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 10*hour + 1})
	a.want(1, 11)
	a.want(2, 20)
	a.wall.Add(hour / 6) // less than a fiftieth of the age
	a.advance()
	a.want(1, 11)
	a.wall.Add(hour / 12)
	a.advance()
	a.want(1, 10)
	first := a.s.Events()[0].AcqNs
	a.hourly(5)
	a.advance()
	a.want(1, 10)
	events := a.s.Events()
	if len(events) != 1 || events[0].AcqNs <= first || events[0].Kind != event.Retention {
		t.Fatalf("%+v", events)
	}
	_, stats, err := a.s.Count(t.Context(), &record.Query{Box: boxOf(record.CID, 1, 2)})
	if err != nil || stats.HistoryChangedAcqNs != events[0].AcqNs {
		t.Fatalf("purged %d, want %d, %v", stats.HistoryChangedAcqNs, events[0].AcqNs, err)
	}
	a.s = reopen(t, a.s, a.opt)
	a.want(1, 10)
	a.want(2, 25)
}

// A policy by acquisition keeps what was captured long ago and came lately.
func TestRetentionByAcq(t *testing.T) {
	a := newAged(t)
	a.hourly(5)
	mustPut(t, a.s, batchOf(record.Key{CID: 1, CapNs: 1}), WriterSeq{})
	a.wall.Add(hour)
	a.set(retention.Rule{MaxAcqAgeNs: 2*hour + 1})
	a.want(1, 3)
	a.want(2, 2)
}

// What has expired comes back with a longer age, or without the policy, until the delay is over;
// from then on it stays away.
func TestExpiredComesBack(t *testing.T) {
	a := newAged(t)
	a.hourly(10)
	a.set(retention.Rule{MaxCapAgeNs: 2*hour + 1})
	a.want(1, 3)
	a.set(retention.Rule{MaxCapAgeNs: 100 * hour})
	a.want(1, 10)
	a.set(retention.Rule{MaxCapAgeNs: 2*hour + 1})
	a.want(1, 3)
	hidden := a.s.Events()[0].AcqNs
	a.set(retention.Rule{})
	a.want(1, 10)
	if left := a.s.Retention(); len(left) != 0 {
		t.Fatalf("%+v", left)
	}
	_, stats, err := a.s.Count(t.Context(), &record.Query{})
	if err != nil || stats.HistoryChangedAcqNs <= hidden {
		t.Fatalf("purged %d, want more than %d, %v", stats.HistoryChangedAcqNs, hidden, err)
	}
	a.set(retention.Rule{MaxCapAgeNs: 2*hour + 1})
	a.advance()
	a.wall.Add(hour + int64(time.Minute))
	a.advance()
	a.want(1, 1)
	for _, r := range []retention.Rule{{MaxCapAgeNs: 100 * hour}, {}} {
		a.set(r)
		a.want(1, 3) // the last one was hidden, and is not removable
		a.s = reopen(t, a.s, a.opt)
		a.want(1, 3)
	}
	a.hourly(50)
	a.advance()
	a.want(1, 53)
	mustSettle(t, a.s)
	a.want(1, 53)
	if rows := a.s.Stats().Rows; rows != 106 {
		t.Fatalf("%d rows", rows)
	}
}

// What has expired is removed when the delay is over, and not before; a segment that has expired
// whole is deleted without a look at its rows.
func TestExpiredRowsAreRemoved(t *testing.T) {
	a := newAged(t)
	a.hourly(10)
	mustSeal(t, a.s)
	a.hourly(30)
	mustSeal(t, a.s)
	left := func(want int64) {
		t.Helper()
		a.advance()
		mustSettle(t, a.s)
		if st := a.s.Stats(); st.Rows != want {
			t.Fatalf("%d rows are left, want %d", st.Rows, want)
		}
	}
	// What is not read is not missed.
	flipByte(t, a.s.shards[0].State.Load().Sealed[0].File.Path(), 100)
	a.set(retention.Rule{MaxCapAgeNs: 30*hour - 1, DelayNs: 4 * hour})
	left(80)
	a.wall.Add(3 * hour)
	left(80)
	a.wall.Add(hour) // 10 of each were marked at once
	left(60)
	a.wall.Add(hour + int64(time.Minute))
	left(60)
	a.wall.Add(2 * hour)
	a.advance() // 17 are marked, seven hours after the first 10
	a.wall.Add(4 * hour)
	a.advance() // they are removable, and two hours later the spread is over
	a.wall.Add(2 * hour)
	left(46)
	a.wall.Add(100 * hour)
	a.advance()
	a.wall.Add(10 * hour)
	left(0)
	if st := a.s.Stats(); st.Segments != 0 || st.PurgedRows != 80 {
		t.Fatalf("%+v", st)
	}
}

// The retention loop takes steps by itself.
func TestRetentionLoop(t *testing.T) {
	a := newAged(t)
	a.opt.retainEvery = time.Millisecond
	a.s = reopen(t, a.s, a.opt)
	a.hourly(10)
	a.set(retention.Rule{MaxCapAgeNs: 5*hour + 1})
	before := a.s.Events()[0].AcqNs
	a.wall.Add(hour)
	for a.s.Events()[0].AcqNs == before {
		a.wall.Add(int64(time.Second)) // what the time was since a step began is not proven
		runtime.Gosched()
	}
}

// TestRetentionLeavesWhatItNeverHid: neither removing a policy nor the step of its other age
// touches rows that were put after the step that raised a floor, and that the policy allows.
func TestRetentionLeavesWhatItNeverHid(t *testing.T) {
	for name, then := range map[string]retention.Rule{
		"longer":    {CID: tenant(1), MaxCapAgeNs: 10_000 * hour},
		"other age": {CID: tenant(1), MaxAcqAgeNs: 1000 * hour},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAged(t)
			a.wall.Add(hour)
			a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: hour})
			a.set(then)
			mustPut(t, a.s, batchOf(record.Key{CID: 1, CapNs: a.wall.Load() - 48*hour}),
				WriterSeq{})
			a.want(1, 1)
			a.wall.Add(50 * hour)
			a.advance()
			a.want(1, 1)
			a.set(retention.Rule{CID: tenant(1)})
			a.want(1, 1)
		})
	}
}

// What a policy would hide is counted once, also where both its ages say so, and stays.
func TestExpiredIsWhatAPolicyHides(t *testing.T) {
	a := newAged(t)
	a.hourly(10)
	now := a.wall.Load()
	mustPut(t, a.s, batchOf(record.Key{CID: 1, CapNs: now - 100*hour}), WriterSeq{})
	f := func(r retention.Rule, want uint64) {
		t.Helper()
		if rows, err := expired(t, a.s, r); err != nil || rows != want {
			t.Errorf("%+v: %d rows, %v, want %d", r, rows, err, want)
		}
	}
	both := retention.Rule{CID: tenant(1), MaxCapAgeNs: 8*hour - 1, MaxAcqAgeNs: 6*hour - 1}
	f(retention.Rule{CID: tenant(1), MaxCapAgeNs: 8*hour - 1}, 3)
	f(retention.Rule{CID: tenant(1), MaxAcqAgeNs: 6*hour - 1}, 4)
	f(both, 5)
	f(retention.Rule{CID: tenant(3), MaxCapAgeNs: 1}, 0)
	f(retention.Rule{MaxCapAgeNs: 8*hour - 1}, 5)
	f(retention.Rule{}, 0)
	if _, err := expired(t, a.s, retention.Rule{MaxCapAgeNs: -1}); err == nil {
		t.Error("a negative age")
	}
	a.want(1, 11)
	a.set(both)
	a.want(1, 11-5)
}

// expired counts what a policy would hide by the clock of a store.
func expired(t *testing.T, s *Store, r retention.Rule) (uint64, error) {
	t.Helper()
	return r.Expired(s.opt.Now(), func(q *record.Query) (uint64, error) {
		n, _, err := s.Count(t.Context(), q)
		return n, err
	})
}

const (
	minute = int64(time.Minute)
	day    = 24 * hour
)
