package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// asking is a cluster of nodes without groups, which answer by a function.
func asking(t *testing.T, nodes int, answer func(node uint64, request []byte) []byte) *cluster {
	c := newCluster(t, 1)
	c.tls = certificates(t, TLSName)
	if answer != nil {
		c.answer = answer
	}
	for id := range nodes {
		c.open(uint64(id + 1))
	}
	return c
}

func TestAsk(t *testing.T) {
	c := asking(t, 2, func(node uint64, request []byte) []byte {
		return fmt.Appendf(request, " of %d", node)
	})
	random := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	for i := range 64 {
		size, me := random.IntN(1<<12), uint64(i%2+1)
		if i%32 == 0 { // two: more of this size than may wait would be refused
			size = maxRequestBytes
		}
		request := strings.Repeat(fmt.Sprint(i, ","), size)[:size]
		wg.Go(func() {
			answer, err := c.nodes[me].Ask(t.Context(), 3-me, []byte(request[:size/2]), nil,
				[]byte(request[size/2:]))
			if want := fmt.Sprintf("%s of %d", request, 3-me); err != nil ||
				string(answer) != want {
				t.Errorf("request %d of %d bytes: %d bytes, %v", i, size, len(answer), err)
			}
		})
	}
	wg.Wait()
	for id := range c.nodes {
		if left := c.nodes[id].transport.calls.waiting; len(left) > 0 {
			t.Errorf("node %d: %d requests wait", id, len(left))
		}
	}
}

// Of a request in flight no one knows what came of it when its node ends, which is said at once.
func TestAskOfANodeThatEnds(t *testing.T) {
	came, wait := make(chan bool), make(chan bool)
	c := asking(t, 2, func(node uint64, _ []byte) []byte {
		if node == 2 {
			came <- true
			<-wait
		}
		return nil
	})
	if _, err := c.nodes[2].Ask(t.Context(), 1, nil); err != nil { // so that each hears the other
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := c.nodes[1].Ask(t.Context(), 2, []byte("a request"))
		done <- err
	}()
	<-came
	node := c.nodes[2]
	var wg sync.WaitGroup
	wg.Go(func() { c.stop(2) })
	if err := <-done; !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	close(wait)
	wg.Wait()
	if of := node.transport.answering[1]; of != 0 {
		t.Errorf("%d requests are being answered", of)
	}
	// The next request is not left to a connection with no one at its end.
	if _, err := c.nodes[1].Ask(t.Context(), 2, []byte("another")); err == nil {
		t.Error("a node that is gone has answered")
	}
}

func TestAskEnds(t *testing.T) {
	wait := make(chan bool)
	c := asking(t, 2, func(uint64, []byte) []byte {
		<-wait
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.nodes[1].Ask(ctx, 2, []byte("a request"))
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	done := make(chan error)
	go func() {
		_, err := c.nodes[1].Ask(t.Context(), 2, []byte("a request"))
		done <- err
	}()
	eventually(t, "a request", func() bool {
		q := &c.nodes[1].transport.calls
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.waiting) == 1
	})
	c.stop(1)
	if err := <-done; !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	close(wait)
}

// Who answers nothing, or has enough to do, says so, and has done nothing.
func TestAskIsRefused(t *testing.T) {
	none := asking(t, 2, nil)
	if _, err := none.nodes[1].Ask(t.Context(), 2, nil); !errors.Is(err, ErrOverloaded) {
		t.Errorf("%v", err)
	}
	wait := make(chan bool)
	c := asking(t, 2, func(uint64, []byte) []byte {
		<-wait
		return []byte("done")
	})
	outcomes := make(chan error, maxRequests+10)
	for range cap(outcomes) {
		go func() {
			_, err := c.nodes[1].Ask(t.Context(), 2, []byte("?"))
			outcomes <- err
		}()
	}
	for range 10 {
		if err := <-outcomes; !errors.Is(err, ErrOverloaded) {
			t.Errorf("one too many: %v", err)
		}
	}
	close(wait)
	for range maxRequests {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
}

// No one answers for another node, and what no node sends is dropped.
func TestHear(t *testing.T) {
	c := asking(t, 1, func(uint64, []byte) []byte { return nil })
	tr := c.nodes[1].transport
	number, answer := tr.calls.add(2)
	whole := askMessage(askReply, number, []byte("an answer"))
	tr.hear(3, whole)
	for n := range askHeaderBytes {
		tr.hear(2, whole[:n])
	}
	tr.hear(2, askMessage(askRefusal+1, number))
	tr.hear(2, askMessage(askReply, number+1))
	select {
	case o := <-answer:
		t.Fatalf("%+v", o)
	default:
	}
	tr.hear(2, whole)
	tr.hear(2, askMessage(askRefusal, number)) // too late
	if o := <-answer; o.err != nil || string(o.answer) != "an answer" {
		t.Errorf("%+v", o)
	}
}

// An answer to a process that has ended is not for the one in its place.
func TestAnswersOfALastLife(t *testing.T) {
	came, wait := make(chan bool), make(chan bool)
	c := asking(t, 2, func(_ uint64, request []byte) []byte {
		if string(request) == "old" {
			came <- true
			<-wait
		}
		return request
	})
	go func() { _, _ = c.nodes[1].Ask(t.Context(), 2, []byte("old")) }()
	<-came
	c.stop(1)
	c.open(1)
	q := &c.nodes[1].transport.calls
	number, answer := q.add(2) // and is not sent
	if _, err := c.nodes[1].Ask(t.Context(), 2, nil); err != nil {
		t.Fatal(err)
	}
	close(wait)
	if _, err := c.nodes[1].Ask(t.Context(), 2, nil); err != nil { // its answer comes behind
		t.Fatal(err)
	}
	eventually(t, "the last answer", func() bool {
		tr := c.nodes[2].transport
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.answering[1] == 0
	})
	select {
	case o := <-answer:
		t.Errorf("request %d got %q, %v", number, o.answer, o.err)
	default:
	}
	if other := newCalls(); other.number == newCalls().number {
		t.Errorf("requests of all processes begin at %d", other.number)
	}
}

// answersAnew opens node 1 once more, and has it ask node 2.
func answersAnew(t *testing.T, c *cluster) {
	t.Helper()
	c.open(1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := c.nodes[1].Ask(ctx, 2, nil); err != nil {
		t.Error(err)
	}
}

// A node that comes back gets its answers at once, however long it was away.
func TestAnswersFindTheWayBack(t *testing.T) {
	c := asking(t, 2, func(uint64, []byte) []byte { return nil })
	if _, err := c.nodes[2].Ask(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	c.stop(1)
	p := c.nodes[2].transport.peers[1]
	for failed := 0; failed < 6; failed++ { // by then it pauses for some seconds
		eventually(t, "a failed attempt", func() bool {
			p.add(1, []byte{1})
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.down
		})
		if failed < 5 {
			eventually(t, "the next attempt", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return !p.down
			})
		}
	}
	answersAnew(t, c)
}

// Nor does it lose the first of them, when it was away for a moment.
func TestTheFirstAnswerIsNotLost(t *testing.T) {
	c := asking(t, 2, func(uint64, []byte) []byte { return nil })
	for id := range c.nodes {
		if _, err := c.nodes[id].Ask(t.Context(), 3-id, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.stop(1)
	tr := c.nodes[2].transport
	eventually(t, "the end of a node", func() bool { return !tr.hasInbound(1) })
	answersAnew(t, c)
}

// What groups send comes first: requests do not fill the way, and what is large has another.
func TestRequestsMakeSpace(t *testing.T) {
	tr := newTransport(Options{Node: 1})
	p := &peer{t: tr, node: 2, wake: make(chan struct{}, 1)}
	tr.peers[2] = p // which sends nothing
	r := &Runtime{transport: tr, closing: make(chan struct{})}
	_, err := r.Ask(t.Context(), 2, make([]byte, maxRequestBytes), []byte("x"))
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("a large request: %v", err)
	}
	none, cancel := context.WithCancel(t.Context())
	cancel()
	for err = ErrUnknown; errors.Is(err, ErrUnknown); {
		_, err = r.Ask(none, 2, make([]byte, 100<<10))
	}
	if !errors.Is(err, ErrUnreachable) || p.bytes > maxAskQueueBytes ||
		!tr.Send(2, 1, make([]byte, 1<<20)) {
		t.Errorf("behind %d bytes of requests: %v", p.bytes, err)
	}
	if len(tr.calls.waiting) > 0 {
		t.Errorf("%d requests wait", len(tr.calls.waiting))
	}
}

// An answer that looks like a pulse keeps its place behind what came before it.
func TestAnswersAreNoPulses(t *testing.T) {
	m := newOutMessage(NoGroup, []byte{1 << 3, 8}) // a heartbeat, in a group
	if other := newOutMessage(1, m.message); m.isPulse() || !other.isPulse() {
		t.Errorf("%v, %v", m.isPulse(), other.isPulse())
	}
}

// A proposal is put together in memory that the next one has, too: the library keeps a copy.
func TestProposalsKeepTheirData(t *testing.T) {
	a := newAlone(t)
	var want []string
	for i := range 100 {
		data := strings.Repeat(fmt.Sprint(i%10), 2000)
		want = append(want, data)
		a.Propose(1, [][]byte{[]byte(data[:i]), []byte(data[i:])}, func(any, error) {})
		a.StepWorker(0) // and nothing is written yet
	}
	a.settle()
	g, err := a.lookup(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := g.machine.(*list).commands; !slices.Equal(got, want) {
		t.Errorf("%d of %d proposals are as they were made", len(got), len(want))
	}
}

// A message is read into memory of its own, of which there is not much before it has come.
func TestMessagesThatDoNotCome(t *testing.T) {
	const came = 100 << 10
	var sent bytes.Buffer
	if err := writeBatch(&sent, []outMessage{newOutMessage(1, make([]byte, 3<<20))}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := inbox{r: bytes.NewReader(sent.Bytes()[:came])}
	err := in.read(func(GroupID, []byte) { t.Error("a message") })
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; err == nil || bytes > 5*came {
		t.Errorf("%d bytes for %d, %v", bytes, came, err)
	}
}

// What comes in fragments takes no more memory than it has, as it is kept.
func TestFragmentsTakeWhatTheyHave(t *testing.T) {
	m := newOutMessage(1, make([]byte, 9<<20+5))
	var sent bytes.Buffer
	if err := writeFragments(&sent, &m, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	in := inbox{r: &sent}
	var got []byte
	for got == nil {
		if err := in.read(func(_ GroupID, message []byte) { got = message }); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != len(m.message) || cap(got) != len(got) {
		t.Errorf("%d bytes for %d of %d", cap(got), len(got), len(m.message))
	}
}

// Of several entries in a message, none keeps the memory of the others.
func TestEntriesKeepNoNeighbours(t *testing.T) {
	large, small := make([]byte, 1000), []byte("small")
	text := appendMessage(&pb.Message{Type: pb.MsgApp.Enum(),
		Entries: []*pb.Entry{{Data: large}, {Data: small}}})
	m, ok := parseMessage(text)
	if !ok {
		t.Fatal("not parsed")
	}
	clear(text)
	if string(m.Entries[1].Data) != "small" {
		t.Errorf("%q", m.Entries[1].Data)
	}
}
