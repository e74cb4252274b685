package node

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	// progressEvery is how often a verification says how far it is, so that no one takes it for
	// dead.
	progressEvery = time.Second
	// lineTimeout is how long a client may take to read what is there.
	lineTimeout = time.Minute
)

// Verify reads everything that the node stores; see [store.Store.Verify]. In a cluster that is its
// replicas, which are then compared with those of other nodes. It ends when the node is closed.
func (n *Node) Verify(ctx context.Context, opt store.CheckOptions) (store.CheckReport, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.open, func() { cancel(errClosing) })()
	if err := take(n.verifying); err != nil {
		return store.CheckReport{}, fmt.Errorf("verify: %w: one runs already", err)
	}
	defer func() { <-n.verifying }()
	var report store.CheckReport
	var err error
	if m := n.member.Load(); m != nil {
		report, err = n.verifyGroups(ctx, m, opt)
	} else {
		report, err = n.store.Verify(ctx, opt)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return report, err
}

// VerifySegment is Verify of one segment of the replica of a group, 0 of a node that is in no
// cluster: so who finds damage in a copy of it can let the node know.
func (n *Node) VerifySegment(
	ctx context.Context, group uint32, id uint64, opt store.CheckOptions,
) (store.CheckReport, error) {
	s := n.store
	if m := n.member.Load(); m != nil || group != 0 {
		s = nil
		if m != nil {
			s = m.Stores()[group]
		}
		if s == nil {
			return store.CheckReport{}, &wire.Error{Kind: wire.KindNotFound,
				Message: fmt.Sprintf("no replica of group %d is on this node", group)}
		}
	}
	return s.VerifySegment(ctx, id, opt)
}

// verifyLine is a line of the answer: one of the three.
type verifyLine struct {
	Damage   *store.Damage      `json:"damage,omitempty"`
	Progress *store.CheckReport `json:"progress,omitempty"`
	End      *verifyEnd         `json:"end,omitempty"`
}

type verifyEnd struct {
	store.CheckReport
	Complete bool   `json:"complete"`
	Error    string `json:"error,omitempty"`
	Code     string `json:"code,omitempty"`
}

// verify answers with lines: damage as it is found, progress every second, the end. It may run for
// hours, so it is not bound by queryTimeout.
func (s *server) verify(ctx *fasthttp.RequestCtx) {
	var opt store.CheckOptions
	var err error
	if text := string(ctx.QueryArgs().Peek("rate")); text != "" {
		opt.BytesPerSec, err = strconv.ParseInt(text, 10, 64)
		if err != nil || opt.BytesPerSec < 1 {
			writeError(ctx, badParam("rate", fmt.Errorf("%q is no number of bytes per second",
				clip(text))))
			return
		}
	}
	do, err := s.verification(string(ctx.QueryArgs().Peek("group")),
		string(ctx.QueryArgs().Peek("segment")))
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	ctx.SetContentType("application/x-ndjson")
	conn := ctx.Conn()
	s.stream(ctx, func(_ context.Context, w *bufio.Writer) error {
		return s.verifyTo(conn, w, opt, do)
	})
}

// verification is what a request verifies.
type verification = func(context.Context, store.CheckOptions) (store.CheckReport, error)

// verification returns what verifies everything, or one segment of a group, which is 0 of a node
// that is in no cluster.
func (s *server) verification(group, segment string) (verification, error) {
	if group == "" && segment == "" {
		return s.node.Verify, nil
	}
	id, err := strconv.ParseUint(segment, 10, 64)
	if err != nil {
		return nil, badParam("segment", fmt.Errorf("%q is no number of a segment", clip(segment)))
	}
	number, err := strconv.ParseUint(cmp.Or(group, "0"), 10, 32)
	if err != nil {
		return nil, badParam("group", fmt.Errorf("%q is no number of a group", clip(group)))
	}
	return func(ctx context.Context, opt store.CheckOptions) (store.CheckReport, error) {
		return s.node.VerifySegment(ctx, uint32(number), id, opt)
	}, nil
}

func (s *server) verifyTo(
	conn net.Conn, w *bufio.Writer, opt store.CheckOptions, do verification,
) error {
	ctx, cancel := context.WithCancelCause(s.running)
	defer cancel(nil)
	line := func(l verifyLine) {
		text, err := json.Marshal(l)
		if err == nil {
			err = conn.SetWriteDeadline(time.Now().Add(lineTimeout))
		}
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			cancel(err) // nobody reads on
		}
	}
	said := time.Now()
	opt.Damage = func(d store.Damage) { line(verifyLine{Damage: &d}) }
	opt.Progress = func(done *store.CheckReport) {
		if time.Since(said) >= progressEvery {
			said = time.Now()
			few := *done
			few.Damage, few.Notes = []store.Damage{}, []string{} // said before
			line(verifyLine{Progress: &few})
		}
	}
	report, err := do(ctx, opt)
	report.Damage = []store.Damage{} // said before
	if report.Notes == nil {
		report.Notes = []string{}
	}
	end := verifyEnd{CheckReport: report, Complete: err == nil}
	if err != nil {
		e := toWire(err)
		end.Error, end.Code = e.Message, e.Kind.String()
	}
	line(verifyLine{End: &end})
	return context.Cause(ctx)
}

func (s *server) deleteSnapshot(ctx *fasthttp.RequestCtx, name string) {
	if err := s.node.RemoveSnapshot(name); err != nil {
		writeError(ctx, toWire(err))
		return
	}
	writeJSON(ctx, map[string]string{"removed": name})
}

// jsonSnapshot is a snapshot as people read it.
type jsonSnapshot struct {
	SnapshotInfo
	Acq     string `json:"acq,omitempty"`
	Created string `json:"created,omitempty"`
}

func newJSONSnapshot(info SnapshotInfo) jsonSnapshot {
	out := jsonSnapshot{SnapshotInfo: info}
	if info.Damage == "" {
		out.Acq, out.Created = record.FormatNs(info.AcqNs), record.FormatNs(info.CreatedNs)
	}
	return out
}

func (s *server) createSnapshot(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	info, err := s.node.CreateSnapshot(rc, string(ctx.QueryArgs().Peek("name")))
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	writeJSON(ctx, newJSONSnapshot(info))
}

func (s *server) listSnapshots(ctx *fasthttp.RequestCtx) {
	all, err := s.node.Snapshots()
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	out := make([]jsonSnapshot, 0, len(all))
	for _, info := range all {
		out = append(out, newJSONSnapshot(info))
	}
	writeJSON(ctx, map[string]any{"snapshots": out})
}
