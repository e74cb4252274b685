package writes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// PutRange adds a range to a cluster that is a copy: to each group its rows, and to all what hides
// rows; or to only one group unless that is 0, which then is a copy by itself. Where that is cut
// short, groups end at different acqs, and take of the ranges of the next run what they lack.
func (g Groups) PutRange(
	ctx context.Context, r *mirror.Range, only cluster.GroupID,
) (horizonNs int64, err error) {
	if _, err := commands.AppendRange(nil, r); err != nil { // as a whole
		return 0, err
	}
	rows := r.Rows
	if rows == nil {
		rows = new(record.Batch)
	}
	var split sync.Mutex
	var of *cluster.View // that of parts
	var parts []*record.Batch
	errs, err := g.eachGroup(ctx, func(v *cluster.View, group cluster.GroupID) error {
		if only > 0 && group != only {
			return nil
		}
		groupRange := *r
		split.Lock()
		if of != v {
			of, parts = v, puts.SplitByGroup(rows, v.Owners())
		}
		groupRange.Rows = parts[group]
		split.Unlock()
		if only > 0 && (groupRange.Rows == nil && rows.Len() > 0 || groupRange.Rows != nil &&
			groupRange.Rows.Len() < rows.Len()) {
			return notOfGroup(group, rows, v)
		}
		// They are normalized in place.
		groupRange.Box, groupRange.Events = cloneBox(&r.Box), slices.Clone(r.Events)
		command, err := commands.AppendRange(nil, &groupRange)
		if err == nil {
			_, err = g.member.Propose(ctx, group, forSlots(v, group, command), true)
		}
		return err
	})
	if err == nil {
		err = ofGroups(errs)
	}
	return r.ToNs, err
}

// notOfGroup returns the error of a row that belongs to another group than it was put to.
func notOfGroup(group cluster.GroupID, rows *record.Batch, v *cluster.View) error {
	owners := v.Owners()
	for i := range rows.Len() {
		if g := owners.Group(slots.Of(rows.CID[i], rows.MID[i])); g != group {
			return &wire.Error{Kind: wire.KindInvalid, Part: request.ParamOfGroup,
				Message: fmt.Sprintf("device %d of tenant %d is of group %d here, not of %d: the "+
					"groups of both clusters must have the same slots, as when both were made "+
					"with as many and none was split", rows.MID[i], rows.CID[i], g, group)}
		}
	}
	return nil
}

// cloneBox returns a box that can be normalized by itself.
func cloneBox(box *record.Box) (out record.Box) {
	for d, set := range box {
		out[d] = slices.Clone(set)
	}
	return out
}

// ofGroups adds group numbers to the errors of eachGroup; an error that is the same in all groups
// is returned once.
func ofGroups(errs []error) error {
	var all []error
	for group, err := range errs {
		if err != nil {
			all = append(all, &nodeerror.SourceError{Source: fmt.Sprintf("group %d", group),
				Err: err})
		}
	}
	if len(all) == len(errs)-1 {
		return errs[1]
	}
	return errors.Join(all...)
}

// PromoteCopy makes a cluster that is a copy one of its own.
func (g Groups) PromoteCopy(ctx context.Context) error {
	command := commands.AppendPromote(nil)
	errs, err := g.eachGroup(ctx, func(v *cluster.View, group cluster.GroupID) error {
		answer, err := g.member.Propose(ctx, group, forSlots(v, group, command), true)
		if answer.Retried && errors.Is(err, store.ErrNoCopy) {
			return nil // it was released the first time
		}
		return err
	})
	if err != nil {
		return err
	}
	none := 0
	for i, err := range errs {
		if errors.Is(err, store.ErrNoCopy) {
			errs[i] = nil // of a release that was cut short, or came twice
			if none++; none == len(errs)-1 {
				return store.ErrNoCopy
			}
		}
	}
	return ofGroups(errs)
}
