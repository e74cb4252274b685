package snapshots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// linkReplicas makes a snapshot of each replica that this node has, one after the other.
func linkReplicas(ctx context.Context, m *member.Member, dir string) error {
	all := m.Stores()
	if len(all) == 0 {
		return errors.New("this node has no replica of a group yet; ask another one")
	}
	for _, group := range slices.Sorted(maps.Keys(all)) {
		to := filepath.Join(dir, "groups", strconv.FormatUint(uint64(group), 10))
		err := os.MkdirAll(to, 0o755)
		if err == nil {
			_, err = all[group].Snapshot(ctx, filepath.Join(to, "store"))
		}
		if err != nil {
			return fmt.Errorf("group %d: %w", group, err)
		}
	}
	return errors.Join(durable.SyncDir(filepath.Join(dir, "groups")), durable.SyncDir(dir))
}

// read describes the snapshot of a node, or of the replicas of one: then the acq is that
// below which all groups are in it.
//
// Errors: os.ErrNotExist when there is none; *durable.CorruptError.
func read(dir string) (out api.Snapshot, err error) {
	out = api.Snapshot{Name: filepath.Base(dir), Dir: dir}
	entries, err := os.ReadDir(filepath.Join(dir, "groups"))
	if errors.Is(err, os.ErrNotExist) {
		one, err := layout.ReadSnapshot(filepath.Join(dir, "store"))
		if err != nil {
			return out, err
		}
		out.AcqNs, out.CreatedNs, out.Index = one.AcqNs, one.CreatedNs, one.Index
		out.Segments, out.Bytes, out.TookNs = one.Segments, one.Bytes, one.TookNs
		return withTexts(out), nil
	}
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		group, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		one, err := layout.ReadSnapshot(filepath.Join(dir, "groups", e.Name(), "store"))
		if err != nil {
			return api.Snapshot{Name: out.Name, Dir: dir}, err
		}
		if len(out.Groups) == 0 {
			out.AcqNs, out.CreatedNs = one.AcqNs, one.CreatedNs
		}
		out.AcqNs, out.CreatedNs = min(out.AcqNs, one.AcqNs), min(out.CreatedNs, one.CreatedNs)
		out.Segments += one.Segments
		out.Bytes += one.Bytes
		out.TookNs += one.TookNs
		out.Groups = append(out.Groups, api.GroupSnapshot{Group: uint32(group), AcqNs: one.AcqNs,
			Index: one.Index})
	}
	slices.SortFunc(out.Groups, func(a, b api.GroupSnapshot) int {
		return int(a.Group) - int(b.Group)
	})
	if len(out.Groups) == 0 {
		return out, fmt.Errorf("snapshot %s: %w", dir, os.ErrNotExist)
	}
	return withTexts(out), nil
}

// withTexts adds the times of a snapshot as texts.
func withTexts(s api.Snapshot) api.Snapshot {
	s.Acq, s.Created = record.FormatNs(s.AcqNs), record.FormatNs(s.CreatedNs)
	return s
}
