// Package writes takes all writes of a node. A node that is in no cluster has them done by its
// store. In a cluster they are commands, which each group applies: they are sent to the leaders of
// all groups that they concern, and again when a group was split meanwhile.
//
// It knows nothing of how writes arrive nor what reads them, and of how groups agree only which
// errors leave an outcome unknown. Its main types are [Dispatcher], and [Groups] for a cluster; a
// call returns when its goroutines, one for each group, have ended.
package writes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Leaders hands commands to the leaders of groups; a [member.Member] does.
type Leaders interface {
	View() *cluster.View
	// Propose sends one command; see [member.Member.Propose].
	Propose(ctx context.Context, group cluster.GroupID, command []byte, retry bool) (
		member.Answer, error)
	// ProposeAll sends a command to each of several groups; see [member.Member.ProposeAll].
	ProposeAll(ctx context.Context, parts []member.Part, retry bool) ([]member.Answer, []error)
}

// Groups are all groups of a cluster that hold records. Errors of single groups are
// [nodeerror.SourceError], unless they are the same in all groups.
type Groups struct {
	member  Leaders
	writers *puts.WriterPool
}

// NewGroups returns the groups of a cluster. Puts without a writer get one of the pool.
func NewGroups(m Leaders, writers *puts.WriterPool) Groups { return Groups{m, writers} }

// RemovedBefore returns nil for the error of a removal that found nothing: an earlier attempt, or
// another client, has removed it.
func RemovedBefore(err error) error {
	kind := wire.Kind(0)
	if err != nil {
		kind = nodeerror.ToWire(err).Kind
	}
	if kind == wire.KindUnknownPlugin || kind == wire.KindNotFound {
		return nil
	}
	return err
}

// forSlots returns a command that a group rejects if it was split since the view.
func forSlots(v *cluster.View, group cluster.GroupID, command []byte) []byte {
	return appendForSlots(nil, v, group, command)
}

func appendForSlots(dst []byte, v *cluster.View, group cluster.GroupID, command []byte) []byte {
	return commands.AppendForSlots(dst, v.Groups[group].Slots, command)
}

// retrySplits calls do with the current view, and again while groups reject it because they were
// split, for member.SplitTimeout at most.
func (g Groups) retrySplits(ctx context.Context, do func(v *cluster.View) error) error {
	for began := time.Now(); ; {
		v := g.member.View()
		if v.DataGroups() == 0 {
			return nodeerror.ErrNoView
		}
		err := do(v)
		if !errors.Is(err, store.ErrOtherSlots) || time.Since(began) > member.SplitTimeout {
			return err
		}
		select {
		case <-time.After(member.SplitPause):
		case <-ctx.Done():
			return err
		}
	}
}

// removedFrom returns the outcome of a removal in a group: a retry finds nothing if the first
// attempt succeeded.
func removedFrom(answer member.Answer, err error) error {
	if answer.Retried {
		return RemovedBefore(err)
	}
	return err
}

// eachGroup does something with each group of data at the same time, and once more with all when
// one was split meanwhile. Its errors are by group; that of the meta group is nil.
func (g Groups) eachGroup(
	ctx context.Context, do func(v *cluster.View, group cluster.GroupID) error,
) (errs []error, err error) {
	err = g.retrySplits(ctx, func(v *cluster.View) error {
		errs = make([]error, v.DataGroups()+1)
		var wg sync.WaitGroup
		for group := range v.Data() {
			wg.Go(func() { errs[group] = do(v, group) })
		}
		wg.Wait()
		for _, err := range errs {
			if errors.Is(err, store.ErrOtherSlots) {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrOtherSlots) {
		return errs, nil
	}
	return errs, err
}
