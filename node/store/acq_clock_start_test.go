package store

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// setMachine is a machine whose clocks a test sets.
type setMachine struct{ wall, monotonic atomic.Int64 }

func newSetMachine() *setMachine {
	m := &setMachine{}
	m.wall.Store(time.Now().UnixNano()) // the files of a test have the time of the machine
	m.monotonic.Store(1)
	return m
}

func (m *setMachine) Read() (wallNs, monotonicNs int64) { return m.wall.Load(), m.monotonic.Load() }
func (m *setMachine) SleptNs() int64                    { return 0 }
func (m *setMachine) Synchronized() bool                { return false }

func (m *setMachine) pass(d time.Duration) {
	m.wall.Add(int64(d))
	m.monotonic.Add(int64(d))
}

// A store that is opened with a clock that is wrong by days or years, or whose clock becomes so,
// stamps by the old time, and its retentions expire nothing.
func TestAStoreWithAWrongClock(t *testing.T) {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{time.Minute, 5 * day, 400 * day, -time.Minute,
		-400 * day} {
		for _, starts := range []bool{true, false} {
			m := newSetMachine()
			dir := t.TempDir()
			open := func() *Store {
				return openTest(t, Options{Dir: dir, retainEvery: time.Hour,
					WallClock: clock.New(clock.Options{Machine: m})})
			}
			s := open()
			b := batchOf(record.Key{MID: 1, CapNs: m.wall.Load() - int64(30*day)},
				record.Key{MID: 2, CapNs: m.wall.Load()})
			first := mustPut(t, s, b, WriterSeq{})
			err := s.SetRetention(t.Context(), retention.Rule{MaxCapAgeNs: int64(60 * day)})
			if err != nil {
				t.Fatal(err)
			}
			if starts {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			m.wall.Add(int64(step))
			if starts {
				s = open()
			}
			for range 9 {
				m.pass(time.Minute)
				if err := s.advanceRetention(t.Context()); err != nil {
					t.Fatal(err)
				}
				if rows := scanRows(t, s, &record.Query{}); len(rows) < 2 {
					t.Fatalf("a step of %v, at start %v: %d rows are left", step, starts, len(rows))
				}
			}
			res := mustPut(t, s, batchOf(record.Key{MID: 3, CapNs: 1}), WriterSeq{})
			late := time.Duration(res.FirstAcqNs - first.LastAcqNs)
			most := 11 * time.Minute
			if starts && step == time.Minute {
				most += step // too little to tell it from a stop
			}
			if late < 0 || late > most {
				t.Errorf("a step of %v, at start %v: an acq is %v later", step, starts, late)
			}
			m.pass(11 * time.Minute) // subtract other evidence, to stay there counts
			res = mustPut(t, s, batchOf(record.Key{MID: 4, CapNs: 1}), WriterSeq{})
			if step > 0 && res.FirstAcqNs != m.wall.Load() {
				t.Errorf("a step of %v, at start %v: not followed", step, starts)
			}
		}
	}
}
