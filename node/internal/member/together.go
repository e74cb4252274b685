package member

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Part is a command for one group.
type Part struct {
	Group uint32
	Data  []byte
}

// partHeaderBytes lie before each command of a request: group u32, size u32.
const partHeaderBytes = 8

func appendParts(dst []byte, parts []Part) []byte {
	for _, p := range parts {
		dst = binary.LittleEndian.AppendUint32(dst, p.Group)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.Data)))
		dst = append(dst, p.Data...)
	}
	return dst
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
		parts = append(parts, Part{binary.LittleEndian.Uint32(src), src[partHeaderBytes:end:end]})
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

// DoAll does what Do does with several commands, and asks each node once for all that it leads. Of
// each command there is an answer or an error.
func (m *Member) DoAll(ctx context.Context, parts []Part, again bool) ([]Answer, []error) {
	answers, errs := make([]Answer, len(parts)), make([]error, len(parts))
	byNode := map[cluster.NodeID][]int{}
	var wg sync.WaitGroup
	do := func(i int) { answers[i], errs[i] = m.Do(ctx, parts[i].Group, parts[i].Data, again) }
	for i, p := range parts {
		id := m.Leader(p.Group)
		if _, ok := m.locate(id); ok && id != m.self.ID {
			byNode[id] = append(byNode[id], i)
		} else {
			wg.Go(func() { do(i) })
		}
	}
	for id, which := range byNode {
		wg.Go(func() {
			if len(which) > 1 {
				which = m.doThere(ctx, id, parts, which, answers, errs)
			}
			for _, i := range which {
				if errs[i] == nil || again || !errors.Is(errs[i], replica.ErrUnknown) {
					wg.Go(func() { do(i) })
				}
			}
		})
	}
	wg.Wait()
	return answers, errs
}

// doThere has a node do some of the parts in one request, and returns which it did not.
func (m *Member) doThere(
	ctx context.Context, id cluster.NodeID, parts []Part, which []int, answers []Answer,
	errs []error,
) (rest []int) {
	some := make([]Part, 0, len(which))
	bytes := 0
	for _, i := range which {
		some = append(some, parts[i])
		bytes += partHeaderBytes + len(parts[i].Data)
	}
	at, _ := m.locate(id)
	short, cancel := context.WithTimeout(ctx, askTimeout+time.Duration(bytes)*timePerByte)
	defer cancel()
	text, err := m.ask(short, http.MethodPost, at.HTTPAddr, RouteCommands,
		appendParts(make([]byte, 0, bytes), some))
	var told []partAnswer
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err == nil && len(told) != len(which) {
		err = fmt.Errorf("%s answers %d of %d commands", at.HTTPAddr, len(told), len(which))
	}
	var refused *wire.Error
	for n, i := range which {
		group := parts[i].Group
		switch {
		case errors.As(err, &refused):
			errs[i] = heard(group, refused)
		case err != nil:
			errs[i] = unanswered(err)
		case told[n].Error != nil:
			errs[i] = heard(group, told[n].Error)
		case !told[n].Alone:
			answers[i] = told[n].Answer
			m.note(group, max(answers[i].Put.LastAcqNs, answers[i].AcqNs))
			continue
		}
		m.hint(group, errs[i])
		rest = append(rest, i)
	}
	return rest
}

// doHere answers what doThere asks.
func (m *Member) doHere(ctx context.Context, body []byte) ([]byte, error) {
	parts, ok := parseParts(body)
	if !ok {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: "body: it ends inside a command, or has more than a cluster has groups"}
	}
	out := make([]partAnswer, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			answer, err := m.Here(ctx, p.Group, p.Data)
			out[i].Answer = answer
			if err != nil {
				var e *wire.Error
				out[i].Alone = !errors.As(said(err), &e) || e.Reason == ""
				if !out[i].Alone {
					out[i].Error = e
				}
			}
		})
	}
	wg.Wait()
	return json.Marshal(out)
}
