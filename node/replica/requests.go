package replica

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
)

// Besides the messages of groups, nodes ask each other what their owners have to ask. It goes over
// the same connections, together with whatever goes there anyway.

const (
	askHeaderBytes = 9 // kind u8, number u64

	askRequest = 1
	askReply   = 2
	askRefusal = 3 // without an answer: nothing was done
	askNote    = 4 // no answer is waited for; the number is 0

	// maxRequests bounds how many of one node are answered at a time.
	maxRequests = 1024
	// maxRequestBytes bounds a request, and maxAskQueueBytes what waits for a node when one is
	// sent: messages of groups come first, and behind what is large they wait.
	maxRequestBytes  = fullBatchBytes
	maxAskQueueBytes = 4 << 20
	// maxNoteBytes bounds a note. Notes go before what is large.
	maxNoteBytes = 1 << 10
)

// pendingCall is a request that waits for its answer.
type pendingCall struct {
	node   uint64
	answer chan callOutcome
}

type callOutcome struct {
	answer []byte
	err    error
}

// calls are those of this node to others. The first number is drawn: an answer may come to
// another process than asked.
type calls struct {
	mu      sync.Mutex // guards everything below
	number  uint64
	waiting map[uint64]pendingCall
}

func newCalls() calls {
	return calls{number: rand.Uint64(), waiting: map[uint64]pendingCall{}}
}

func (q *calls) add(node uint64) (number uint64, answer chan callOutcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.number++
	answer = make(chan callOutcome, 1)
	q.waiting[q.number] = pendingCall{node, answer}
	return q.number, answer
}

// end answers a request that waits, if it was one of this node.
func (q *calls) end(node, number uint64, o callOutcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a, ok := q.waiting[number]; ok && a.node == node {
		delete(q.waiting, number)
		a.answer <- o
	}
}

// lose ends what waits for a node: a connection with it ended, so an answer may not come.
func (q *calls) lose(node uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for number, a := range q.waiting {
		if a.node == node {
			delete(q.waiting, number)
			a.answer <- callOutcome{err: fmt.Errorf("%w: the connection with node %016x ended",
				ErrUnknown, node)}
		}
	}
}

// Ask asks another node what its Options.Answer answers, in parts that are joined and copied, at
// most 1 MiB.
//
// Errors: ErrUnreachable when it was not sent, as it is too large or too much waits for the node;
// ErrOverloaded when it was not done; ErrUnknown when that is unknown.
func (r *Runtime) Ask(ctx context.Context, node uint64, request ...[]byte) ([]byte, error) {
	t, bytes := r.transport, 0
	for _, part := range request {
		bytes += len(part)
	}
	if bytes > maxRequestBytes {
		return nil, fmt.Errorf("ask node %016x: %w by %d bytes, at most %d", node, ErrUnreachable,
			bytes, maxRequestBytes)
	}
	number, answer := t.calls.add(node)
	if !t.Send(node, NoGroup, askMessage(askRequest, number, request...)) {
		t.calls.end(node, number, callOutcome{})
		return nil, fmt.Errorf("ask node %016x: %w", node, ErrUnreachable)
	}
	var err error
	select {
	case o := <-answer:
		if o.err != nil {
			return nil, fmt.Errorf("ask node %016x: %w", node, o.err)
		}
		return o.answer, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.closing:
		err = ErrClosed
	}
	t.calls.end(node, number, callOutcome{})
	return nil, fmt.Errorf("ask node %016x: %w: %w", node, ErrUnknown, err)
}

// SendNote sends a note of at most 1 KiB to another node, which may get lost. It returns false when
// it was not sent.
func (r *Runtime) SendNote(node uint64, note []byte) bool {
	return len(note) <= maxNoteBytes && r.transport.tell(node, note)
}

func (t *transport) tell(node uint64, note []byte) bool {
	return t.Send(node, NoGroup, askMessage(askNote, 0, note))
}

func askMessage(kind uint8, number uint64, body ...[]byte) []byte {
	size := askHeaderBytes
	for _, part := range body {
		size += len(part)
	}
	out := binary.LittleEndian.AppendUint64(append(messageBuffer(size), kind), number)
	for _, part := range body {
		out = append(out, part...)
	}
	return out
}

// hear takes a request or an answer. What no node sends is dropped.
func (t *transport) hear(node uint64, message []byte) {
	if len(message) < askHeaderBytes {
		return
	}
	number, body := binary.LittleEndian.Uint64(message[1:]), message[askHeaderBytes:]
	switch message[0] {
	case askReply:
		t.calls.end(node, number, callOutcome{answer: body})
	case askRefusal:
		t.calls.end(node, number, callOutcome{err: ErrOverloaded})
	case askNote:
		if t.opt.Heard == nil || len(body) > maxNoteBytes {
			return
		}
		if answer := t.opt.Heard(node, body); answer != nil {
			t.tell(node, answer)
		}
	case askRequest:
		if t.opt.Answer == nil || !t.begin(node) {
			t.Send(node, NoGroup, askMessage(askRefusal, number))
			return
		}
		t.wg.Go(func() {
			defer t.answered(node)
			t.Send(node, NoGroup, askMessage(askReply, number, t.opt.Answer(body)))
		})
	}
}

// begin counts a request of a node that is to be answered, unless there are too many.
func (t *transport) begin(node uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answering[node] == maxRequests {
		return false
	}
	t.answering[node]++
	return true
}

func (t *transport) answered(node uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answering[node]--
}
