package replica

import (
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// After a crash an install that was about to begin is taken for done only if the machine is where
// it ends, and the log did not come there by itself: when the install failed and the entries came
// instead, those behind them were acknowledged.
func TestInstallsThatACrashCutShort(t *testing.T) {
	const snapshot, term = 5, 2
	f := func(what string, entries []uint64, applied, wantCut, wantLast uint64) {
		t.Helper()
		d := newDisk()
		l, _ := testJournal(t, d)
		members := config{index: 1, state: &pb.ConfState{Voters: []uint64{NewID(1, 1)}}}
		records := []record{createRecord(l, 1)}
		for i, entryTerm := range entries {
			records = append(records, entryRecord(l, 1, entryTerm, uint64(i)+2, "entry"))
		}
		records = append(records, record{group: l.lookup(1), frame: frame{kind: kindInstalling,
			term: term, index: snapshot, payload: appendConfig(nil, &members)}})
		if err := l.write(records); err != nil {
			t.Fatal(err)
		}
		c, _, err := OpenCore(CoreOptions{Node: 1, Files: d, Network: nowhere{}})
		if err == nil {
			err = c.Start(1, &list{applied: applied})
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for c.StepFlusher() {
		}
		again, _ := testJournal(t, d.crash(rand.New(rand.NewPCG(1, 1))))
		for when, log := range map[string]*groupLog{"": c.journal.lookup(1),
			" and a loss of power": again.lookup(1)} {
			if log.cutIndex != wantCut || log.last() != wantLast {
				t.Errorf("%s%s: the log has %d to %d, want %d to %d", what, when, log.cutIndex,
					log.last(), wantCut, wantLast)
			}
		}
	}
	f("cut short", []uint64{1, 1}, snapshot, snapshot, snapshot)
	f("cut short, over entries of a leader before", []uint64{1, 1, 1, 1, 1}, snapshot, snapshot,
		snapshot)
	f("failed, and the entries came", []uint64{1, 1, term, term, term, term}, snapshot, 1, 7)
	f("not begun", []uint64{1, 1}, 3, 1, 3)
}
