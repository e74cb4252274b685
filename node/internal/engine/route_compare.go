package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// compareRows is roughly how many rows are compared at once: these are read well within the
	// timeout of a query.
	compareRows = 1 << 20
	// compareTries is how often replicas are compared when a purge comes in between.
	compareTries = 5
)

// VerifyGroups reads everything that the replicas of this node store, group after group, and then
// compares each with the other replicas of its group.
func (e *Engine) VerifyGroups(
	ctx context.Context, stores map[cluster.GroupID]*store.Store, opt check.Options,
) (api.CheckReport, error) {
	v := &groupVerification{engine: e, opt: opt, total: api.CheckReport{}}
	for _, group := range slices.Sorted(maps.Keys(stores)) {
		if err := v.files(ctx, group, stores[group]); err != nil {
			return v.total, fmt.Errorf("group %d: %w", group, err)
		}
	}
	for group, route := range e.routes.Load().all() {
		if route.local == nil {
			continue
		}
		err := v.compare(ctx, group, route)
		if errors.Is(err, store.ErrClosed) && !e.closing() {
			v.note("group %d: its replica moved, or was replaced, meanwhile", group)
			continue
		}
		var damage *durable.CorruptError
		if errors.As(err, &damage) { // which is known of the files
			v.note("group %d: the replica here cannot be compared: %v", group, err)
			continue
		}
		if err != nil {
			return v.total, fmt.Errorf("group %d: %w", group, err)
		}
	}
	return v.total, nil
}

// groupVerification is one verification of the replicas of a node.
type groupVerification struct {
	engine *Engine
	opt    check.Options
	total  api.CheckReport // of what is done
}

func (v *groupVerification) note(format string, args ...any) {
	v.total.Notes = append(v.total.Notes, fmt.Sprintf(format, args...))
}

func (v *groupVerification) damaged(group cluster.GroupID, d api.Damage) {
	d.Reason = fmt.Sprintf("group %d: %s", group, d.Reason)
	v.total.Damages++
	v.total.Damage = append(v.total.Damage, d)
	if v.opt.Damage != nil {
		v.opt.Damage(d)
	}
}

// files reads the files of one replica.
func (v *groupVerification) files(
	ctx context.Context, group cluster.GroupID, s *store.Store,
) error {
	opt := check.Options{BytesPerSec: v.opt.BytesPerSec}
	if v.opt.Damage != nil {
		opt.Damage = func(d api.Damage) {
			d.Reason = fmt.Sprintf("group %d: %s", group, d.Reason)
			v.opt.Damage(d)
		}
	}
	if v.opt.Progress != nil {
		opt.Progress = func(done *api.CheckReport) {
			so := v.total
			addReport(&so, done)
			v.opt.Progress(&so)
		}
	}
	report, err := s.Verify(ctx, opt)
	for i := range report.Damage {
		report.Damage[i].Reason = fmt.Sprintf("group %d: %s", group, report.Damage[i].Reason)
	}
	addReport(&v.total, &report)
	if errors.Is(err, store.ErrClosed) && !v.engine.closing() {
		v.note("group %d: its replica moved, or was replaced, meanwhile", group)
		return nil
	}
	return err
}

func addReport(to, from *api.CheckReport) {
	to.Segments += from.Segments
	to.Blocks += from.Blocks
	to.Rows += from.Rows
	to.LogFiles += from.LogFiles
	to.LogAppends += from.LogAppends
	to.LogRows += from.LogRows
	to.Bytes += from.Bytes
	to.Damages += from.Damages
	to.Damage = append(slices.Clip(to.Damage), from.Damage...)
	to.Notes = append(slices.Clip(to.Notes), from.Notes...)
	to.TookNs += from.TookNs
}

// compare compares the replica of a group here with the others, by digests of what is closed on all
// of them, and names those that differ from most.
func (v *groupVerification) compare(
	ctx context.Context, group cluster.GroupID, route *groupRoute,
) error {
	until, err := route.local.store.ExtendHorizon(ctx)
	if err != nil {
		return err
	}
	left := groupRoute{local: route.local, peers: slices.Clone(route.peers),
		required: route.local.store.Slots()}
	for from := int64(math.MinInt64); from < until && len(left.peers) > 0; {
		cuts, err := route.local.store.Cut(ctx, from, until, compareRows)
		if err != nil {
			return err
		}
		to := cuts[1]
		alike, err := v.compareBetween(ctx, group, &left, from, to)
		if err != nil || !alike {
			return err
		}
		from = to
	}
	return nil
}

// compareBetween compares the rows of replicas between two acqs. alike is false if they differ.
// Unavailable replicas are noted, and omitted from then on.
func (v *groupVerification) compareBetween(
	ctx context.Context, group cluster.GroupID, route *groupRoute, from, to int64,
) (alike bool, err error) {
	for range compareTries {
		said := make([]digests, 1, len(route.peers)+1)
		said[0], err = route.local.digest(ctx, &wire.DigestQuery{Cuts: []int64{from, to}})
		if err != nil {
			return false, err
		}
		route.peers = slices.DeleteFunc(route.peers, func(other *Peer) bool {
			ask := &remoteSource{peer: other}
			ask.add(group, route, to-1)
			d, err := ask.digest(ctx, &wire.DigestQuery{Cuts: []int64{from, to}})
			if err == nil {
				said = append(said, d)
			} else if ctx.Err() == nil {
				v.note("group %d: node %s cannot be compared with: %v", group, other.name, err)
			}
			return err != nil
		})
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if route.local.store.Slots() != route.required {
			v.note("group %d: it was split meanwhile; compare again", group)
			return false, nil
		}
		if again := slices.ContainsFunc(said, func(d digests) bool {
			// One has yet to apply a purge.
			return d.historyChangedAcqNs != said[0].historyChangedAcqNs
		}); !again {
			return v.reportMinority(group, route, said), nil
		}
	}
	v.note("group %d: purges or retentions went on all the time; compare again", group)
	return false, nil
}

// reportMinority reports the replicas that differ from the majority; without a majority, all.
func (v *groupVerification) reportMinority(
	group cluster.GroupID, route *groupRoute, said []digests,
) (alike bool) {
	votes := map[digest.Slice]int{}
	for _, d := range said {
		votes[d.slices[0]]++
	}
	if len(votes) == 1 {
		return true
	}
	for i, d := range said {
		if 2*votes[d.slices[0]] > len(said) {
			continue
		}
		where := "here"
		if i > 0 {
			where = "on node " + route.peers[i-1].name
		}
		one := d.slices[0]
		v.damaged(group, api.Damage{File: "replica " + where, Reason: fmt.Sprintf(
			"it differs from the other replicas: %d records with acqs from %d to %d", one.Rows,
			one.FromNs, one.ToNs)})
	}
	return false
}
