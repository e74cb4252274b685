package replica

import (
	"bytes"
	"errors"
	"testing"
)

// TestTenure: what is proposed in a tenure is stamped as it is appended, and Lead says of a leader
// whether it has something in progress.
func TestTenure(t *testing.T) {
	a := newAlone(t)
	lead := func() (out []Tenure) {
		t.Helper()
		ended := false
		a.Lead([]GroupID{1, 2}, func(group GroupID, x Tenure) {
			if group != 1 {
				t.Errorf("group %d leads", group)
			}
			out = append(out, x)
		}, func() { ended = true })
		for a.StepWorker(0) {
		}
		if !ended {
			t.Error("Lead does not end")
		}
		return out
	}
	first := lead()
	if len(first) != 1 || !first[0].Rests || first[0].Term == 0 {
		t.Fatalf("a leader at rest: %+v", first)
	}
	var result any
	var stamped []Tenure
	propose := func(done func(any, error)) {
		a.ProposeIn(1, [][]byte{[]byte("old"), []byte("er")}, func(x Tenure, data []byte) error {
			stamped = append(stamped, x)
			copy(data, "new")
			return nil
		}, done)
	}
	propose(func(r any, err error) {
		if result = r; err != nil {
			t.Error(err)
		}
	})
	if now := lead(); len(now) != 1 || now[0].Rests || now[0].Applied != first[0].Applied {
		t.Errorf("a leader with something in progress: %+v after %+v", now, first)
	}
	a.settle()
	if result != 1 || len(stamped) != 1 || stamped[0].Term != first[0].Term {
		t.Errorf("answer %v, stamped in %+v", result, stamped)
	}
	if now := lead(); len(now) != 1 || !now[0].Rests || now[0].Applied != first[0].Applied+1 {
		t.Errorf("a leader that has done it: %+v after %+v", now, first)
	}
	m := a.groups[1].machine.(*list)
	if !bytes.Equal([]byte(m.commands[0]), []byte("newer")) {
		t.Errorf("the machine has %q", m.commands)
	}
}

// TestProposalsWaitForTheTenure: a leader whose machine lacks what was committed before its term
// stamps nothing; what waits is answered when the group stops.
func TestProposalsWaitForTheTenure(t *testing.T) {
	for _, stops := range []bool{false, true} {
		a := restarted(t)
		answered, stamped := 0, 0
		var failed error
		a.ProposeIn(1, [][]byte{[]byte("x")}, func(Tenure, []byte) error { stamped++; return nil },
			func(_ any, err error) { answered, failed = answered+1, err })
		a.Lead([]GroupID{1}, func(GroupID, Tenure) { t.Error("it has a tenure") }, func() {})
		for a.StepWorker(0) || a.StepFlusher() {
		}
		if answered+stamped > 0 {
			t.Errorf("%d answered, %d stamped before it has applied anything", answered, stamped)
		}
		want := 1
		if stops {
			want = 0
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			a.settle()
		}
		if answered != 1 || stamped != want || stops != errors.Is(failed, ErrClosed) {
			t.Errorf("stops %v: %d answered, %d stamped, %v", stops, answered, stamped, failed)
		}
	}
}

// restarted is a core whose one replica leads again and has applied nothing of its new term.
func restarted(t *testing.T) *alone {
	t.Helper()
	a := newAlone(t)
	id := a.Groups()[1]
	machine := a.groups[1].machine
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	a.Core, _, err = OpenCore(CoreOptions{Node: 1, Files: a.disk, Network: nowhere{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(1, machine); err != nil {
		t.Fatal(err)
	}
	for range 3 * electionTicks {
		a.Tick()
		for a.StepWorker(0) || a.StepFlusher() {
		}
	}
	if st, err := a.Status(1); err != nil || st.Leader != id {
		t.Fatalf("the only voter does not lead: %+v, %v", st, err)
	}
	return a
}
