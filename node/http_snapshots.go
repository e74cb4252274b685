package node

import (
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

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
