package member

import (
	"errors"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// ledGroups are groups of which only leaders are known.
type ledGroups struct {
	groups
	leaders map[uint32]uint64 // by the log's number of the group
}

func (l ledGroups) Groups() map[uint32]uint64 { return l.leaders }

func (l ledGroups) Status(group uint32) (replica.Status, error) {
	return replica.Status{Leader: l.leaders[group]}, nil
}

// A group without a leader is a problem after a while; a node of which all groups are so takes no
// writes and is not ready, until one has a leader again.
func TestANodeWithoutLeadersIsNotReady(t *testing.T) {
	leaders, start := map[uint32]uint64{1: 7, 2: 7, 3: 0}, time.Unix(1000, 0)
	m := &Member{run: &shifted{ledGroups{leaders: leaders}}}
	f := func(after time.Duration, problems int, ready bool) {
		t.Helper()
		all := m.leaderProblems(start.Add(after))
		unready := 0
		for _, p := range all {
			if p.Code != "no_leader" || p.Advice == "" {
				t.Errorf("%+v", p)
			}
			if p.NotReady {
				unready++
			}
		}
		if len(all) != problems || (unready == 0) != ready || unready > 0 && unready < len(all) {
			t.Errorf("after %v: %+v, want %d problems, ready %v", after, all, problems, ready)
		}
	}
	f(0, 0, true)
	f(leaderlessAfter, 1, true)
	leaders[1], leaders[2] = 0, 0
	f(leaderlessAfter+1, 1, true) // an election
	f(2*leaderlessAfter, 1, true)
	f(2*leaderlessAfter+1, 3, false)
	leaders[2] = 8
	f(2*leaderlessAfter+2, 2, true)
}

// A node that has the address of another one, which lost its disk or moved, does nothing in its
// place: what was to be sent to that is sent again.
func TestWhatIsForAnotherNodeIsSentAgain(t *testing.T) {
	m := &Member{key: "k"}
	m.self.ID = 1
	args := func(name string) string { return map[string]string{"for": "2", "group": "1"}[name] }
	_, known, err := m.Serve(t.Context(), "POST", RouteCommand, "k", args, nil)
	var sent *wire.Error
	if !known || !errors.As(err, &sent) || sent.Kind != wire.KindUnavailable {
		t.Fatalf("%v, %v", known, err)
	}
	var frame wire.Error
	_, payload, _, err := wire.ParseFrame(wire.AppendError(nil, sent), 1<<20)
	if err == nil {
		err = wire.ParseError(payload, &frame)
	}
	got := heard(1, &frame)
	if err != nil || !sendAgain(got, false) || !errors.Is(got, errNoAnswer) ||
		errors.Is(got, replica.ErrUnknown) {
		t.Errorf("%v, heard as %v", err, got)
	}
}
