package replica

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// start opens the log of a node that is down, as a process with some starts and options does.
func (l *lockstep) start(node uint64, change func(*CoreOptions)) error {
	l.Helper()
	opt := CoreOptions{Node: node, Files: l.disks[node], Network: mailbox{of: l, node: node},
		Starts: []uint64{1<<startBits | 1, 2<<startBits | node},
		Now:    func() time.Duration { return l.now }}
	if change != nil {
		change(&opt)
	}
	c, _, err := OpenCore(opt)
	if err != nil {
		l.Fatal(err)
	}
	l.cores[node] = c
	return c.Start(1, &list{})
}

// stop ends the process of a node and leaves its disk.
func (l *lockstep) stop(nodes ...uint64) {
	for _, node := range nodes {
		delete(l.cores, node)
	}
}

// write has the leader apply something, and reports whether it did within a second.
func (l *lockstep) write() bool {
	l.Helper()
	done := false
	if leader := l.leader(); leader != 0 {
		l.cores[leader].Propose(1, [][]byte{[]byte("x")}, func(_ any, err error) {
			done = err == nil
		})
	}
	for range 20 {
		l.tick()
	}
	return done
}

func (l *lockstep) status(node uint64) Status {
	l.Helper()
	st, err := l.cores[node].Status(1)
	if err != nil {
		l.Fatal(err)
	}
	return st
}

// copied is a directory that looks like a copy.
func copied(o *CoreOptions) { o.Copied = true }

// A node that is put back while the others go on is fenced whether its directory looks like a copy
// or not, as after a snapshot of a machine was restored; it stays fenced, and the others go on.
func TestARollbackIsFenced(t *testing.T) {
	for _, change := range []func(*CoreOptions){nil, copied} {
		l := newLockstep(t, 1)
		leader := l.leader()
		node := leader%3 + 1
		kept := l.disks[node].clone()
		for range 3 {
			if !l.write() {
				t.Fatal("nothing was written")
			}
		}
		l.stop(node)
		l.disks[node] = kept
		if err := l.start(node, change); err != nil {
			t.Fatal(err)
		}
		l.ticks(5)
		if st := l.status(node); !errors.Is(st.Err, ErrRolledBack) || st.Leader != 0 {
			t.Errorf("%+v", st)
		} else if text := st.Err.Error(); strings.Contains(text, "group 1") ||
			!strings.Contains(text, "node 000000000000000") {
			t.Errorf("%q names the group by the log's number, or a node in another way", text)
		}
		if !l.write() {
			t.Error("the others do not go on")
		}
		l.stop(node)
		if err := l.start(node, nil); !errors.Is(err, ErrRolledBack) {
			t.Errorf("after another start: %v", err)
		}
		l.stop(node)
		if err := l.start(node, func(o *CoreOptions) { o.Trust = true }); err != nil {
			t.Errorf("trusted: %v", err)
		}
	}
}

// A node that was put back and the one that missed the last writes are no majority, while the third
// is down: until it is back, or the operator vouches for the copy.
func TestARollbackMakesNoMajority(t *testing.T) {
	for _, trust := range []bool{false, true} {
		l := newLockstep(t, 1)
		leader := l.leader()
		missed, node := leader%3+1, (leader+1)%3+1
		kept := l.disks[node].clone()
		l.stop(missed)
		for range 3 {
			if !l.write() {
				t.Fatal("nothing was written")
			}
		}
		last := l.status(leader).Last
		l.stop(leader, node)
		l.disks[node] = kept
		for _, one := range []uint64{missed, node} {
			if err := l.start(one, func(o *CoreOptions) {
				o.Copied, o.Trust = one == node, one == node && trust
				o.TrustTicks = proofTicks
			}); err != nil {
				t.Fatal(err)
			}
		}
		l.ticks(4 * proofTicks)
		if got := l.leader() != 0; got != trust {
			t.Errorf("trusted %v, has a leader %v", trust, got)
		}
		if trust {
			continue
		}
		want := []uint64{NewID(leader, 1)}
		if st := l.status(node); !slices.Equal(st.Unconfirmed, want) || st.Confirmed {
			t.Errorf("%+v, want one that waits for %x", st, want)
		}
		if err := l.start(leader, nil); err != nil {
			t.Fatal(err)
		}
		l.ticks(4 * proofTicks)
		if st := l.status(missed); st.Leader == 0 || st.Commit <= last || st.Last <= last {
			t.Errorf("%+v, want all of %d entries", st, last)
		}
	}
}

// Of copies of all nodes that were made at different times, and are started as trusted in any
// order, the newest wins: the others have no leader before they know it.
func TestTheNewestOfTrustedCopiesWins(t *testing.T) {
	for newest := uint64(1); newest <= 3; newest++ {
		for _, known := range []bool{false, true} { // that its last entries are committed
			l := newLockstep(t, 1)
			older := map[uint64]*disk{}
			write := func() {
				t.Helper()
				for range 3 {
					if !l.write() {
						t.Fatal("nothing was written")
					}
				}
			}
			first, second := newest%3+1, (newest+1)%3+1
			for _, node := range []uint64{first, second} {
				write()
				older[node] = l.disks[node].clone()
			}
			write()
			if known {
				l.ticks(electionTicks)
			}
			last := l.status(newest).Last
			l.stop(1, 2, 3)
			for node, kept := range older {
				l.disks[node] = kept
			}
			for _, node := range []uint64{first, second, newest} {
				if err := l.start(node, func(o *CoreOptions) {
					o.Copied, o.Trust = true, true
				}); err != nil {
					t.Fatal(err)
				}
				l.ticks(4 * proofTicks)
				if l.leader() != 0 && node != newest {
					t.Errorf("newest %d: a leader before it is there", newest)
				}
			}
			for node := uint64(1); node <= 3; node++ {
				if st := l.status(node); st.Err != nil || st.Leader == 0 || st.Commit < last ||
					!st.Confirmed {
					t.Errorf("newest %d, node %d: %+v, want %d entries", newest, node, st, last)
				}
			}
		}
	}
}

// What is committed on a replica is not replaced by a majority that was formed without it: none of
// them goes on, and each says why.
func TestAForkStopsTheGroup(t *testing.T) {
	l := newLockstep(t, 1)
	leader := l.leader()
	missed, node := leader%3+1, (leader+1)%3+1
	kept := l.disks[node].clone()
	l.stop(missed)
	for range 5 {
		l.write()
	}
	last := l.status(leader).Last
	l.stop(leader, node)
	l.disks[node] = kept
	// Nothing tells the copy from a directory that was there all the time.
	for _, one := range []uint64{missed, node} {
		if err := l.start(one, nil); err != nil {
			t.Fatal(err)
		}
	}
	l.ticks(4 * proofTicks)
	if !l.write() {
		t.Fatal("want a second history")
	}
	if err := l.start(leader, nil); err != nil {
		t.Fatal(err)
	}
	l.ticks(4 * proofTicks)
	for one := range uint64(3) {
		if st := l.status(one + 1); !errors.Is(st.Err, ErrForked) &&
			!errors.Is(st.Err, ErrRolledBack) {
			t.Errorf("node %d: %+v", one+1, st)
		}
	}
	if st := l.status(leader); st.Last < last || !errors.Is(st.Err, ErrForked) {
		t.Errorf("the entries that the others lost are gone, or not: %+v", st)
	}
}

// All nodes are started again, but for one that is gone: the two others form a majority, at once
// when all three come, and else after a while.
func TestARestartNeedsNoDeadNode(t *testing.T) {
	for dead := range uint64(4) {
		l := newLockstep(t, 1)
		l.write()
		l.stop(1, 2, 3)
		for node := uint64(1); node <= 3; node++ {
			if node == dead {
				continue
			}
			if err := l.start(node, nil); err != nil {
				t.Fatal(err)
			}
		}
		ticks := 0
		for ; l.leader() == 0 && ticks < 300; ticks++ {
			l.tick()
		}
		if most := proofTicks*min(int(dead), 1) + 4*electionTicks; ticks > most {
			t.Errorf("node %d is dead: a leader after %d ticks, want at most %d", dead, ticks, most)
		}
		if !l.write() {
			t.Error("nothing is written")
		}
	}
}

// A node is lost while another one starts. Where that was not proven yet, the group waits for the
// confirmation of the lost node until half of the others is enough; where it was, for an election.
func TestALossDuringAStart(t *testing.T) {
	for _, proven := range []bool{false, true} {
		l := newLockstep(t, 1)
		lost := l.leader()
		started := lost%3 + 1
		l.stop(started)
		l.write()
		if err := l.start(started, nil); err != nil {
			t.Fatal(err)
		}
		for proven && !l.status(started).Confirmed {
			l.tick()
		}
		l.stop(lost)
		ticks := 0
		for ; l.leader() == 0 && ticks < 300; ticks++ {
			l.tick()
		}
		least, most := 0, 4*electionTicks
		if !proven {
			least, most = proofTicks, proofTicks+4*electionTicks
		}
		if ticks < least || ticks > most {
			t.Errorf("proven %v: a leader after %d ticks, want %d to %d", proven, ticks, least,
				most)
		}
		if !l.write() {
			t.Errorf("proven %v: nothing is written", proven)
		}
	}
}

// A copy that lacks nothing takes part again when all others say so: a directory was moved.
func TestACopyThatLacksNothing(t *testing.T) {
	l := newLockstep(t, 1)
	node := l.leader()
	l.write()
	l.stop(node)
	if err := l.start(node, copied); err != nil {
		t.Fatal(err)
	}
	l.ticks(4 * electionTicks)
	if st := l.status(node); !st.Confirmed || st.Err != nil || st.Leader == 0 {
		t.Errorf("%+v", st)
	}
	if !l.write() {
		t.Error("nothing is written")
	}
}

// A start that the others never heard of is no sign of anything; one that the directory does not
// know of is.
func TestStartsThatFollow(t *testing.T) {
	start := func(count, drawn uint64) uint64 { return count<<startBits | drawn }
	f := func(seen uint64, want bool, starts ...uint64) {
		t.Helper()
		if got := startFollows(starts, seen); got != want {
			t.Errorf("%x after %x: %v", starts, seen, got)
		}
	}
	f(0, true, start(1, 1))
	f(start(1, 1), true, start(1, 1), start(2, 2))
	f(start(2, 9), false, start(1, 1), start(2, 2)) // another process came after start 1
	f(start(3, 9), false, start(1, 1), start(2, 2))
	f(start(1, 1), true, start(5, 5), start(6, 6)) // long ago
	f(start(1, 1), true)                           // nothing is known of starts here
}

func TestPromisesAreKept(t *testing.T) {
	p := promise{term: 5, vote: 2, index: 10}
	f := func(term, vote, last uint64, want bool) {
		t.Helper()
		if got := p.keptBy(term, vote, last); got != want {
			t.Errorf("term %d, vote %d, entry %d: %v", term, vote, last, got)
		}
	}
	f(5, 2, 10, true)
	f(5, 2, 11, true)
	f(5, 2, 9, false)
	f(5, 3, 10, false)
	f(5, 0, 10, false)
	f(4, 2, 20, false)
	f(6, 0, 3, true) // what was not committed was cut in favour of a newer leader
	g := func(o promise, more bool, want promise) {
		t.Helper()
		got := p
		if said := got.merge(o); said != more || got != want {
			t.Errorf("%+v, %v; want %+v", got, said, want)
		}
	}
	g(promise{term: 4, index: 90}, false, p)
	g(promise{term: 5, index: 12}, true, promise{term: 5, vote: 2, index: 12})
	g(promise{term: 6, index: 1}, true, promise{term: 6, index: 1})
	g(promise{start: 1 << startBits}, true, promise{start: 1 << startBits, term: 5, vote: 2,
		index: 10})
}

// What was promised outlives files of the log that are removed, and so does a fence.
func TestPromisesAreNoted(t *testing.T) {
	d := newDisk()
	l, _ := testJournal(t, d)
	g := l.add(7)
	want := promises{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}
	write := func(f frame) {
		t.Helper()
		if err := l.write([]record{{group: g, frame: f}}); err != nil {
			t.Fatal(err)
		}
	}
	write(frame{kind: kindCreated, payload: appendIdentity(nil, &identity{replica: NewID(1, 1),
		config: config{state: &pb.ConfState{}}})})
	write(frame{kind: kindPromised, payload: appendPromises(nil, want)})
	write(frame{kind: kindFenced, payload: []byte("why")})
	for range 3 {
		l, _ = testJournal(t, d)
		g = l.lookup(7)
		if !slices.Equal(g.promises, want) || g.fenced == nil || g.fenced.Error() != "why" {
			t.Fatalf("%+v, %v", g.promises, g.fenced)
		}
	}
	write(frame{kind: kindFenced})
	if l, _ = testJournal(t, d); l.lookup(7).fenced != nil {
		t.Error("a fence that was taken back")
	}
}

func FuzzParseProof(f *testing.F) {
	f.Add(appendProof(nil, &proof{kind: proofAsk, from: 1, to: 2, number: 3, term: 4, vote: 5,
		last: 6, lastTerm: 4, commit: 6, commitTerm: 4, starts: []uint64{1 << startBits},
		known:  promises{{1, 2, 3, 4, 5}, {2, 2, 3, 4, 5}},
		config: config{index: 9, state: &pb.ConfState{Voters: []uint64{1, 2}}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, ok := parseProof(data)
		if !ok {
			return
		}
		again := appendProof(nil, &p)
		if !bytes.Equal(again, data) {
			t.Fatalf("%x is written as %x", data, again)
		}
		if q, ok := parseProof(again); !ok || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v is read as %+v", p, q)
		}
		if _, ok := parseMessage(data); ok {
			t.Fatal("it is a message of the library, too")
		}
	})
}

// A new replica that takes the place of another one on its node does not wait for that to confirm
// anything: it is gone.
func TestOnlyOtherNodesConfirm(t *testing.T) {
	g := &group{replica: NewID(1, 9)}
	g.proving.config.state = &pb.ConfState{Voters: []uint64{NewID(1, 5), NewID(2, 6), NewID(3, 7)}}
	if got := g.others(); !slices.Equal(got, []uint64{NewID(2, 6), NewID(3, 7)}) {
		t.Errorf("%x confirm", got)
	}
}
