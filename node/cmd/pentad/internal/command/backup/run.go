package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// backupWait is how long a backup waits for a cluster to replace a damaged replica: enough for
	// one of some hundred GB.
	backupWait = time.Hour
	// mendStep is how often it looks, and mendNotice how long the node may take to have a replica
	// replaced that it was told is damaged.
	mendStep, mendNotice = time.Second, time.Minute
)

// backupRun is a backup of a running node, tried again for what was damaged.
type backupRun struct {
	*app
	db     *client.Client
	to     string
	opt    archive.BackupOptions
	failed map[uint64]damagedSource // by group, 0 of a node that is in no cluster; nil at first
}

// damagedSource is a store that was not backed up, because a file of it is damaged.
type damagedSource struct {
	damage *durable.CorruptError
	acqNs  int64 // below which the snapshot had all of it
}

// run backs up everything, and then, as long as the cluster makes replicas again, what was damaged.
func (r *backupRun) run(ctx context.Context, wait time.Duration) error {
	err := r.once(ctx)
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// While a replica is replaced, a snapshot may find it closed.
	var remote *wire.Error
	for (err == nil || errors.As(err, &remote) && remote.Kind.Temporary()) &&
		len(r.failed) > 0 && r.mended(waiting) {
		err = r.once(ctx)
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	var errs []error
	for _, group := range slices.Sorted(maps.Keys(r.failed)) {
		errs = append(errs, adviseDamage(group, r.failed[group].damage, true))
	}
	return errors.Join(append(errs, err)...)
}

// once makes a snapshot of the node, backs up what is left, and notes what of that is damaged. Its
// error is of anything else.
func (r *backupRun) once(ctx context.Context) error {
	name := "backup-" + r.Now().UTC().Format("20060102-150405.000")
	info, err := r.db.CreateSnapshot(ctx, name)
	if err != nil {
		r.removeUnanswered(ctx, r.db, name, err)
		return err
	}
	err = r.backUp(ctx, info)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("directory %s of the node: not on this host; run the command on the "+
			"host of the node: %w", info.Dir, err)
	}
	return errors.Join(err, removeSnapshot(ctx, r.db, name))
}

func (r *backupRun) backUp(ctx context.Context, info client.SnapshotInfo) error {
	groups := groupsIn(info.Dir)
	if groups == nil {
		return r.failure(ctx, info, 0, r.backupSnapshot(ctx, info, r.to, r.opt))
	}
	acqs := map[uint64]int64{}
	for _, g := range info.Groups {
		acqs[uint64(g.Group)] = g.AcqNs
	}
	groups = slices.DeleteFunc(groups, func(g groupDir) bool {
		left, ok := r.failed[g.group]
		return r.failed != nil && !ok || acqs[g.group] < left.acqNs // a new one is not there yet
	})
	for _, g := range groups {
		delete(r.failed, g.group)
	}
	err := r.backupGroups(ctx, info.Dir, r.to, groups, r.opt)
	var rest []error
	for _, err := range unjoined(err) {
		var of groupError
		if errors.As(err, &of) {
			err = r.failure(ctx, info, of.group, err)
		}
		rest = append(rest, err)
	}
	return errors.Join(rest...)
}

// unjoined returns the errors that were joined to one.
func unjoined(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	return []error{err}
}

// failure remembers that a store was not backed up because it is damaged, and lets the node read
// the segment, so that it knows. Any other error is returned.
func (r *backupRun) failure(
	ctx context.Context, info client.SnapshotInfo, group uint64, err error,
) error {
	var damage *durable.CorruptError
	if !errors.As(err, &damage) || errors.Is(err, archive.ErrPartDamaged) {
		return err
	}
	found := *damage
	found.File = fileOfNode(info.Dir, damage.File)
	source := damagedSource{damage: &found, acqNs: info.AcqNs}
	for _, g := range info.Groups {
		if uint64(g.Group) == group {
			source.acqNs = g.AcqNs
		}
	}
	if r.failed == nil {
		r.failed = map[uint64]damagedSource{}
	}
	r.failed[group] = source
	number, _, ok := strings.Cut(filepath.Base(found.File), ".seg")
	if id, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
		// What it finds it names itself; what it does not say is not known to it.
		_, _ = r.db.Verify(ctx, client.VerifyOptions{Group: uint32(group), Segment: id})
	}
	return nil
}

// fileOfNode returns the file of a node that one in a snapshot of it is a link of, as a snapshot is
// removed.
func fileOfNode(snapshot, file string) string {
	rel, err := filepath.Rel(snapshot, file)
	if err != nil || strings.HasPrefix(rel, "..") {
		return file
	}
	dir := filepath.Dir(filepath.Dir(snapshot))
	parts := strings.Split(rel, string(filepath.Separator))
	if len(parts) < 3 || parts[0] != "groups" {
		return filepath.Join(dir, rel)
	}
	parts[1] += ".*" // the number of the replica
	found, err := filepath.Glob(filepath.Join(dir, filepath.Join(parts...)))
	if err != nil || len(found) == 0 {
		return file
	}
	return found[0]
}

// mended waits until the cluster has made the damaged replicas again, and reports whether it has. A
// node that is in no cluster, or whose group has no other replica, does not.
func (r *backupRun) mended(ctx context.Context) bool {
	if _, alone := r.failed[0]; alone {
		return false
	}
	for _, group := range slices.Sorted(maps.Keys(r.failed)) {
		r.Note("group %d: %v; waiting until the cluster has replaced the replica", group,
			r.failed[group].damage)
	}
	for began := r.Now(); ; {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(mendStep):
		}
		h, err := r.db.NodeHealth(ctx)
		if err != nil {
			continue
		}
		damaged, replaced := r.known(h.Problems)
		switch {
		case !damaged && !replaced:
			return true
		case !replaced && r.Now().Sub(began) > mendNotice:
			return false
		}
	}
}

// known reports whether the node says that a replica that was not backed up is damaged, and that
// one is being replaced.
func (r *backupRun) known(problems []client.Problem) (damaged, replaced bool) {
	for group := range r.failed {
		for _, p := range problems {
			damaged = damaged || p.Code == "file_damaged" &&
				strings.Contains(p.Message, fmt.Sprintf("/groups/%d.", group))
			replaced = replaced || p.Code == "replica_quarantined" &&
				p.Subject == fmt.Sprintf("group %d", group)
		}
	}
	return damaged, replaced
}

// adviseDamage says of a store that was not backed up what is damaged and what to do.
func adviseDamage(group uint64, err error, runs bool) error {
	const kept = "no part was written, earlier parts are unchanged; "
	const look = "check the kernel log for disk errors"
	switch {
	case group == 0:
		return fmt.Errorf("%w: %s%s and restore the node from its last backup (pentad restore); "+
			"pentad export saves readable records", err, kept, look)
	case runs:
		return fmt.Errorf("group %d: %w: %sthe cluster has not replaced the replica, see pentad "+
			"health; retry when it has, or back up another node that has the group; %s", group, err,
			kept, look)
	}
	return fmt.Errorf("group %d: %w: %sstart the node, so that the cluster replaces the "+
		"replica, or back up another node that has the group; %s", group, err, kept, look)
}
