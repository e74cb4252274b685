package member

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Part is a command for one group.
type Part struct {
	Group cluster.GroupID
	Data  []byte
}

// partHeaderBytes lie before each command of a request: group u32, size u32.
const partHeaderBytes = 8

// buffersOf returns what is sent of some commands. It aliases them.
func buffersOf(parts []Part) [][]byte {
	heads := make([]byte, 0, len(parts)*partHeaderBytes)
	buffers := make([][]byte, 0, 2*len(parts))
	for _, p := range parts {
		heads = binary.LittleEndian.AppendUint32(heads, uint32(p.Group))
		heads = binary.LittleEndian.AppendUint32(heads, uint32(len(p.Data)))
		buffers = append(buffers, heads[len(heads)-partHeaderBytes:], p.Data)
	}
	return buffers
}

// parseParts returns the commands of a request, aliasing it.
func parseParts(src []byte) (parts []Part, ok bool) {
	for len(src) > 0 {
		if len(src) < partHeaderBytes || len(parts) == cluster.MaxGroups {
			return nil, false
		}
		size := uint64(binary.LittleEndian.Uint32(src[4:]))
		if size > uint64(len(src)-partHeaderBytes) {
			return nil, false
		}
		end := partHeaderBytes + int(size)
		group := cluster.GroupID(binary.LittleEndian.Uint32(src))
		parts = append(parts, Part{group, src[partHeaderBytes:end:end]})
		src = src[end:]
	}
	return parts, true
}

// partAnswer is what a node answers to one of several commands.
type partAnswer struct {
	Answer Answer      `json:"answer"`
	Error  *wire.Error `json:"error,omitempty"` // one of those that say to ask another node
	Alone  bool        `json:"alone,omitempty"` // another error, which the command by itself gets
}

// ProposeAll does what Propose does with several commands, and asks each node once for all that it
// leads. Of each command there is an answer or an error. When none is an error or Retried, what
// lies in parts is not read any more.
func (m *Member) ProposeAll(ctx context.Context, parts []Part, again bool) ([]Answer, []error) {
	answers, errs := make([]Answer, len(parts)), make([]error, len(parts))
	byNode := map[cluster.NodeID][]int{}
	var wg sync.WaitGroup
	do := func(i int) {
		sent := errors.Is(errs[i], replica.ErrUnknown)
		answers[i], errs[i] = m.Propose(ctx, parts[i].Group, parts[i].Data, again)
		answers[i].Retried = answers[i].Retried || sent
	}
	for i, p := range parts {
		id := m.Leader(p.Group)
		if _, ok := m.locate(id); ok && id != m.self.ID && !m.reached.isSuspect(id) {
			byNode[id] = append(byNode[id], i)
		} else {
			wg.Go(func() { do(i) })
		}
	}
	for id, which := range byNode {
		wg.Go(func() {
			for _, i := range m.proposeThere(ctx, id, parts, which, answers, errs) {
				if errs[i] == nil || again || !errors.Is(errs[i], replica.ErrUnknown) {
					wg.Go(func() { do(i) })
				}
			}
		})
	}
	wg.Wait()
	return answers, errs
}

// proposeThere has a node do some of the parts in one request, and returns which it did not.
func (m *Member) proposeThere(
	ctx context.Context, id cluster.NodeID, parts []Part, which []int, answers []Answer,
	errs []error,
) (rest []int) {
	some := make([]Part, 0, len(which))
	groups := make([]cluster.GroupID, 0, len(which))
	bytes := 0
	for _, i := range which {
		some, groups = append(some, parts[i]), append(groups, parts[i].Group)
		bytes += partHeaderBytes + len(parts[i].Data)
	}
	short, cancel := m.leaderContext(ctx, groups, bytes)
	defer cancel()
	text, err := m.run.Ask(short, uint64(id), buffersOf(some)...)
	if err != nil && ctx.Err() == nil && errors.Is(short.Err(), context.DeadlineExceeded) {
		m.reached.note(id, false)
	}
	var told []partAnswer
	if err == nil && (json.Unmarshal(text, &told) != nil || len(told) != len(which)) {
		err = fmt.Errorf("%w: node %v answers %.80q to %d commands", replica.ErrUnknown, id, text,
			len(which))
	}
	for n, i := range which {
		group := parts[i].Group
		switch {
		case err != nil:
			errs[i] = err
		case told[n].Error != nil:
			errs[i] = decodeLeaderError(group, told[n].Error)
		case !told[n].Alone:
			answers[i] = told[n].Answer
			m.raiseSessionAcq(group, max(answers[i].Put.LastAcqNs, answers[i].AcqNs))
			continue
		}
		m.hint(group, errs[i])
		rest = append(rest, i)
	}
	return rest
}

// serveProposals answers what proposeThere asks: nothing to what it would not.
func (m *Member) serveProposals(request []byte) []byte {
	parts, ok := parseParts(request)
	if !ok {
		return nil
	}
	out := make([]partAnswer, len(parts))
	// Shorter than the asking node waits: one group that hangs must not cost the answers of others.
	ctx, cancel := context.WithTimeout(m.open,
		askTimeout*3/4+time.Duration(len(request))*timePerByte)
	defer cancel()
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			answer, err := m.Here(ctx, p.Group, p.Data)
			out[i].Answer = answer
			if err != nil {
				var e *wire.Error
				out[i].Alone = !errors.As(encodeLeaderError(err), &e) || e.Reason == ""
				if !out[i].Alone {
					out[i].Error = e
				}
			}
		})
	}
	wg.Wait()
	text, err := json.Marshal(out)
	if err != nil {
		panic("BUG: answers that cannot be written: " + err.Error())
	}
	return text
}
