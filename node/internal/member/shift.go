package member

import (
	"context"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
)

// shifted calls the groups of the log what the cluster calls them, whose first is 0: the log counts
// from 1, so that no group is none.
type shifted struct{ run groups }

func (s shifted) Create(ctx context.Context, group uint32, id uint64, voters []uint64) error {
	return s.run.Create(ctx, group+1, id, voters)
}

func (s shifted) Start(group uint32, m replica.Machine) error { return s.run.Start(group+1, m) }

func (s shifted) Drop(ctx context.Context, group uint32) error { return s.run.Drop(ctx, group+1) }

func (s shifted) Status(group uint32) (replica.Status, error) { return s.run.Status(group + 1) }

func (s shifted) Propose(
	ctx context.Context, group uint32, stamp replica.Stamp, data ...[]byte,
) (any, error) {
	return s.run.ProposeIn(ctx, group+1, stamp, data...)
}

func (s shifted) Lead(
	ctx context.Context, groups []uint32, do func(group uint32, t replica.Tenure),
) error {
	up := make([]uint32, len(groups))
	for i, group := range groups {
		up[i] = group + 1
	}
	return s.run.Lead(ctx, up, func(group uint32, t replica.Tenure) { do(group-1, t) })
}

func (s shifted) Ask(
	ctx context.Context, node cluster.NodeID, question ...[]byte,
) ([]byte, error) {
	return s.run.Ask(ctx, uint64(node), question...)
}

func (s shifted) Tell(node cluster.NodeID, note []byte) bool {
	return s.run.Tell(uint64(node), note)
}

func (s shifted) Change(ctx context.Context, group uint32, change replica.Change) error {
	return s.run.Change(ctx, group+1, change)
}

func (s shifted) ReadIndex(ctx context.Context, group uint32) error {
	_, err := s.run.ReadIndex(ctx, group+1)
	return err
}

func (s shifted) TransferLeader(group uint32, to uint64) { s.run.TransferLeader(group+1, to) }

func (s shifted) SetSnapshotRate(bytesPerSec int64) { s.run.SetSnapshotRate(bytesPerSec) }

func (s shifted) Lack() error { return s.run.Lack() }

func (s shifted) Look() { s.run.Look() }

func (s shifted) Mistaken() cluster.NodeID { return cluster.NodeID(s.run.Mistaken()) }

func (s shifted) LogBytes() int64 { return s.run.LogBytes() }

func (s shifted) Verify(ctx context.Context, pace Pace, damaged func(uint32, error)) error {
	return s.run.Verify(ctx, pace, func(group uint32, err error) { damaged(group-1, err) })
}

func (s shifted) Close() error { return s.run.Close() }

func (s shifted) Groups() map[uint32]uint64 { return down(s.run.Groups()) }

func down[V any](of map[uint32]V) map[uint32]V {
	out := make(map[uint32]V, len(of))
	for group, v := range of {
		out[group-1] = v
	}
	return out
}
