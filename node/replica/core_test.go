package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// alone is a core whose one group has one voter, stepped until nothing waits.
type alone struct {
	*Core
	disk   *disk
	now    time.Duration
	failed []error
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	a := &alone{disk: newDisk()}
	var err error
	a.Core, _, err = OpenCore(CoreOptions{Node: 1, Files: a.disk, Network: nowhere{},
		Now:  func() time.Duration { return a.now },
		Fail: func(err error) { a.failed = append(a.failed, err) }})
	if err != nil {
		t.Fatal(err)
	}
	id := NewID(1, 1)
	a.Create(1, id, []uint64{id}, func(e error) { err = e })
	a.StepFlusher()
	if err == nil {
		err = a.Start(1, &list{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * electionTicks {
		a.Tick()
		a.settle()
	}
	if st, err := a.Status(1); err != nil || st.Leader != id {
		t.Fatalf("the only voter does not lead: %+v, %v", st, err)
	}
	return a
}

func (a *alone) settle() {
	for a.StepWorker(0) || a.StepFlusher() || a.StepApplier() {
	}
}

// propose returns the error of a proposal, or nil and false when there is no answer.
func (a *alone) propose(data string) (err error, answered bool) {
	a.Propose(1, [][]byte{[]byte(data)}, func(_ any, e error) { err, answered = e, true })
	a.settle()
	return err, answered
}

// A full disk holds writers up and loses nothing.
func TestFullDisk(t *testing.T) {
	a := newAlone(t)
	a.disk.fail = func(operation string) error {
		if operation == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	var first error
	answers := 0
	a.Propose(1, [][]byte{[]byte("first")}, func(_ any, err error) { first = err; answers++ })
	a.settle()
	if answers != 0 {
		t.Fatalf("with a full disk a proposal answers %v", first)
	}
	if err, _ := a.propose("second"); !errors.Is(err, ErrOverloaded) {
		t.Errorf("while the disk is full, a proposal answers %v", err)
	}
	a.Tick()
	a.settle()
	a.disk.fail = nil
	a.Tick()
	a.settle()
	if answers != 1 || first != nil {
		t.Errorf("with space again, %d answers, %v", answers, first)
	}
	if err, ok := a.propose("third"); !ok || err != nil || len(a.failed) > 0 {
		t.Errorf("then a proposal answers %v; %v", err, a.failed)
	}
}

// Members outlive a loss of power in a group that no one writes to: those before them may need
// a replica that is gone since.
func TestMembersOutlivePower(t *testing.T) {
	a := newAlone(t)
	var changed error
	a.Change(1, Change{AddLearner: []uint64{NewID(2, 1)}}, func(err error) { changed = err })
	a.settle()
	st, err := a.Status(1)
	if err != nil || changed != nil || st.Joint || len(st.Members) != 2 {
		t.Fatalf("a change answers %v: %+v, %v", changed, st, err)
	}
	c, _, err := OpenCore(CoreOptions{Node: 1, Network: nowhere{},
		Files: a.disk.crash(rand.New(rand.NewPCG(1, 1)))})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(1, &list{}); err != nil {
		t.Fatal(err)
	}
	if st, err := c.Status(1); err != nil || st.Joint || len(st.Members) != 2 {
		t.Errorf("after a loss of power: %+v, %v", st, err)
	}
}

// overheard is a network that keeps what is sent.
type overheard struct {
	nowhere
	sent *[]*pb.Message
}

func (o overheard) Send(_ uint64, _ GroupID, message []byte) bool {
	if m, ok := parseMessage(message); ok {
		*o.sent = append(*o.sent, m)
	}
	return true
}

// Who asks for votes has noted its own: with the votes of others it would lead a term that a loss
// of power lets it forget, and lead once more.
func TestVotesAfterOwn(t *testing.T) {
	var sent []*pb.Message
	c, _, err := OpenCore(CoreOptions{Node: 1, Files: newDisk(), Network: overheard{sent: &sent}})
	if err != nil {
		t.Fatal(err)
	}
	me, other := NewID(1, 1), NewID(2, 1)
	c.Create(1, me, []uint64{me, other, NewID(3, 1)}, func(e error) { err = e })
	c.StepFlusher()
	if err == nil {
		err = c.Start(1, &list{})
	}
	if err != nil {
		t.Fatal(err)
	}
	asked := func(what pb.MessageType) *pb.Message {
		for _, m := range sent {
			if m.GetType() == what && m.GetTo() == other {
				return m
			}
		}
		return nil
	}
	for range 2 * electionTicks {
		if c.Tick(); asked(pb.MsgPreVote) == nil {
			for c.StepWorker(0) || c.StepFlusher() {
			}
		}
	}
	m := asked(pb.MsgPreVote)
	c.Deliver(2, 1, appendMessage(&pb.Message{Type: pb.MsgPreVoteResp.Enum(), From: &other, To: &me,
		Term: m.Term}))
	for c.StepWorker(0) {
	}
	if asked(pb.MsgVote) != nil {
		t.Error("asks for votes before its own is durable")
	}
	for c.StepFlusher() || c.StepWorker(0) {
	}
	if asked(pb.MsgVote) == nil {
		t.Error("asks for no votes")
	}
}

// A failed sync is the end: who waits learns that no one knows, and the owner is told once.
func TestFailedSync(t *testing.T) {
	a := newAlone(t)
	a.disk.fail = func(operation string) error {
		if operation == "sync" {
			return syscall.EIO
		}
		return nil
	}
	err, answered := a.propose("first")
	if !answered || !errors.Is(err, ErrUnknown) || !errors.Is(err, ErrLogFailed) {
		t.Errorf("after a failed sync, a proposal answers %v", err)
	}
	a.disk.fail = nil
	if err, _ := a.propose("second"); !errors.Is(err, ErrLogFailed) || errors.Is(err, ErrUnknown) {
		t.Errorf("then one answers %v", err)
	}
	if len(a.failed) != 1 || !errors.Is(a.failed[0], syscall.EIO) {
		t.Errorf("the owner was told %v", a.failed)
	}
}

// A sync that does not return for 10 s is the end, too.
func TestHangingSync(t *testing.T) {
	a := newAlone(t)
	a.disk.fail = func(string) error {
		for began := a.now; a.now < began+11*time.Second; {
			a.now += 50 * time.Millisecond
			a.Tick()
		}
		return nil
	}
	if err, answered := a.propose("first"); !answered || err != nil {
		t.Error(err)
	}
	if len(a.failed) != 1 || !errors.Is(a.failed[0], ErrLogFailed) {
		t.Errorf("the owner was told %v", a.failed)
	}
}

// A machine that fails stops its group, who waits is told, and others are not led to it.
func TestFailedMachine(t *testing.T) {
	a := newAlone(t)
	broken := errors.New("broken")
	g, err := a.lookup(1)
	if err != nil {
		t.Fatal(err)
	}
	g.machine.(*list).fail = broken
	if err, ok := a.propose("x"); !ok || !errors.Is(err, ErrUnknown) || !errors.Is(err, broken) {
		t.Errorf("a proposal answers %v", err)
	}
	if err, ok := a.propose("y"); !ok || !errors.Is(err, ErrStopped) || errors.Is(err, ErrUnknown) {
		t.Errorf("the next answers %v", err)
	}
	if st, err := a.Status(1); err != nil || !errors.Is(st.Err, broken) || st.Leader != 0 {
		t.Errorf("status %+v, %v", st, err)
	}
}

// What is queued behind an entry that a machine could not apply is not applied, even if the machine
// would take it.
func TestFailedMachineTakesNoMore(t *testing.T) {
	a := newAlone(t)
	g, err := a.lookup(1)
	if err != nil {
		t.Fatal(err)
	}
	l, broken := g.machine.(*list), errors.New("no space")
	l.failOnce = broken
	before := l.applied
	var errs []error
	for _, data := range []string{"x", "y"} {
		a.Propose(1, [][]byte{[]byte(data)}, func(_ any, err error) { errs = append(errs, err) })
		for a.StepWorker(0) || a.StepFlusher() {
		}
	}
	if len(g.tasks) < 2 {
		t.Fatalf("%d tasks are queued: nothing is tested", len(g.tasks))
	}
	a.settle()
	if l.applied != before || len(l.commands) != 0 {
		t.Errorf("after entry %d could not be applied, the machine has %q", before+1, l.commands)
	}
	for _, err := range errs {
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, broken) {
			t.Errorf("a proposal answers %v", err)
		}
	}
	if st, err := a.Status(1); err != nil || len(errs) != 2 || !errors.Is(st.Err, broken) {
		t.Errorf("%d answers, status %+v, %v", len(errs), st, err)
	}
}

// A machine is given each entry that follows what it has.
func TestFollows(t *testing.T) {
	for _, c := range [][2]uint64{{0, 1}, {0, 2}, {7, 8}} {
		if err := follows(c[0], c[1]); err != nil {
			t.Error(err)
		}
	}
	for _, c := range [][2]uint64{{7, 7}, {7, 9}, {1, 3}} {
		if follows(c[0], c[1]) == nil {
			t.Errorf("entry %d is taken for the one after %d", c[1], c[0])
		}
	}
}

// Whoever proposes or reads when a core is closed is answered.
func TestCloseAnswers(t *testing.T) {
	a := newAlone(t)
	var errs []error
	a.Propose(1, [][]byte{[]byte("x")}, func(_ any, err error) { errs = append(errs, err) })
	a.ReadIndex(1, func(_ uint64, err error) { errs = append(errs, err) })
	a.Change(1, Change{AddLearner: []uint64{NewID(2, 1)}}, func(err error) {
		errs = append(errs, err)
	})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a.Propose(1, [][]byte{[]byte("x")}, func(_ any, err error) { errs = append(errs, err) })
	if len(errs) != 4 {
		t.Fatalf("answers %v", errs)
	}
	for _, err := range errs {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("closed, it answers %v", err)
		}
	}
}

// breaking is a network whose files break off after some bytes.
type breaking struct {
	nowhere
	data  []byte
	opens int
}

func (b *breaking) Open(_ context.Context, _ uint64, f SnapshotFile) (io.ReadCloser, error) {
	b.opens++
	if b.opens%3 == 0 {
		return nil, errors.New("no connection")
	}
	part := b.data[f.Offset:min(f.Offset+7, int64(len(b.data)))]
	if int(f.Offset)+len(part) == len(b.data) {
		return io.NopCloser(bytes.NewReader(part)), nil
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(part), broken{})), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken off") }

// A fetch goes on where it broke off.
func TestFetchGoesOn(t *testing.T) {
	n := &breaking{data: []byte("what a snapshot has, in more than a few parts")}
	g := &group{core: &Core{opt: CoreOptions{Network: n}}}
	for offset := range int64(len(n.data)) {
		r, err := g.fetch(2, 9)(t.Context(), "name", offset)
		if err != nil {
			continue // the first attempt is the caller's
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, n.data[offset:]) {
			t.Errorf("from %d: %q, %v", offset, got, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if n.opens < 3*len(n.data)/7 {
		t.Errorf("it was opened %d times", n.opens)
	}
}
