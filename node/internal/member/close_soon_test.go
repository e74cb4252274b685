package member

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
)

// TestGroupsAreClosedForFeeds: the horizon of a group at rest, which moves at full seconds, passes
// an acq on all replicas soon after one node wants it, whether that leads the group or not, and a
// group that is closed so still rests.
func TestGroupsAreClosedForFeeds(t *testing.T) {
	const soon = 300 * time.Millisecond // of the simulation
	s := inSimulation(t, 3, "", func(s *simulation) {
		defer s.stop()
		for _, n := range s.nodes {
			n.start()
		}
		if !s.await(time.Minute, s.settled) {
			s.violated("a new cluster is not whole: %s", s.missing())
			return
		}
		s.pass(restAfter + 2*time.Second)
		passed := func(acq int64) (on int) {
			for _, p := range s.running() {
				at := p.member.Load().Store(1)
				if at == nil {
					continue
				}
				if horizon, err := at.ExtendHorizon(t.Context()); err == nil && horizon > acq {
					on++
				}
			}
			return on
		}
		// A moment after a full second, so that the next is far away.
		second := func() (acq int64) {
			now := time.Now()
			s.pass(now.Truncate(restEvery).Add(restEvery + restEvery/5).Sub(now))
			return time.Now().UnixNano()
		}
		acq := second()
		if s.pass(soon); passed(acq) != 0 {
			s.violated("a horizon moved by itself")
		}
		for _, p := range s.running() {
			m := p.member.Load()
			if m.Store(1) == nil {
				continue
			}
			for range 3 {
				acq := second()
				m.CloseSoon(1, acq)
				s.pass(soon / 10)
				m.CloseSoon(1, acq+int64(soon)/10) // commands that make no group a busy one
				if s.pass(soon); passed(acq) != s.config.replicas {
					s.violated("node %v, leader %v: %d horizons have passed", m.self.ID,
						m.Leader(1), passed(acq))
				}
			}
		}
		acq = second()
		if s.pass(soon); passed(acq) != 0 {
			s.violated("a group that was closed for feeds does not rest")
		}
	})
	if s.violation != "" {
		t.Error(s.violation)
		s.tellLines(t)
	}
}

func FuzzPass(f *testing.F) {
	f.Add(passNote(7, -1))
	f.Add(passNote(0, 1)[:23])
	f.Fuzz(func(t *testing.T, src []byte) {
		feed, acq, ok := parsePass(src)
		if ok && !bytes.Equal(passNote(feed, acq), src) {
			t.Errorf("%x is feed %d, acq %d", src, feed, acq)
		}
	})
}

func FuzzCloseNotes(f *testing.F) {
	f.Add(closeNotes(map[cluster.GroupID]int64{1: 5, 7: -1})[0])
	f.Add([]byte{closeKind, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, src []byte) {
		wanted, err := parseCloseNote(src)
		if err != nil || len(src) > 1<<10 {
			return
		}
		for group := range wanted {
			if group == cluster.MetaGroup || group > cluster.MaxGroups {
				t.Errorf("group %d", group)
			}
		}
		for _, note := range closeNotes(wanted) {
			again, err := parseCloseNote(note)
			if err != nil || !maps.Equal(again, wanted) {
				t.Errorf("%v is read as %v, %v", wanted, again, err)
			}
		}
	})
}

// TestNotesOfManyGroups: no note is longer than one may be.
func TestNotesOfManyGroups(t *testing.T) {
	wanted := map[cluster.GroupID]int64{}
	for group := range cluster.GroupID(cluster.MaxGroups) {
		wanted[group+1] = int64(group)
	}
	got := map[cluster.GroupID]int64{}
	for _, note := range closeNotes(wanted) {
		some, err := parseCloseNote(note)
		if err != nil || len(note) > 1<<10 {
			t.Fatalf("%d bytes, %v", len(note), err)
		}
		maps.Copy(got, some)
	}
	if !maps.Equal(got, wanted) {
		t.Errorf("%d of %d groups", len(got), len(wanted))
	}
}
