package node

import (
	"context"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/slots"
)

// requestOptions are options of a request besides its query: which groups it reads, how fresh their
// data must be, and how it may end.
type requestOptions struct {
	groups    []cluster.GroupID // set by other nodes: groups of this node; nil: all of the cluster
	mustHold  []slots.Range     // that each store must hold; zero for groups never split
	onlyGroup cluster.GroupID   // the only group that is read; 0: all
	partial   bool              // unavailable sources may be omitted
	linear    bool              // linearizable: reads see all that was acknowledged before
	feedID    uint64            // of a feed that another node merges; 0: none
	noCache   bool              // the partial-aggregate cache is not used
	within    time.Duration     // deadline of the request; 0: that of the node
	// after are acqs that the horizon must pass before a read: one for all, or one for each of
	// groups.
	after []int64
}

type optionsKey struct{}

// AllowPartial lets answers omit unavailable sources: the end of such an answer says that it is not
// complete, and what is missing.
func AllowPartial(ctx context.Context) context.Context {
	s := optionsOf(ctx)
	s.partial = true
	return withOptions(ctx, s)
}

// Fresh makes an aggregate read all rows of its box instead of using the partial-aggregate cache.
// The answer is the same.
func Fresh(ctx context.Context) context.Context {
	s := optionsOf(ctx)
	s.noCache = true
	return withOptions(ctx, s)
}

func withOptions(ctx context.Context, s requestOptions) context.Context {
	return context.WithValue(ctx, optionsKey{}, s)
}

func optionsOf(ctx context.Context) requestOptions {
	s, _ := ctx.Value(optionsKey{}).(requestOptions) // without any, the zero value
	return s
}

// heldOf returns the slots that the store of a group must hold.
func (s *requestOptions) heldOf(group cluster.GroupID) slots.Range {
	if i := slices.Index(s.groups, group); i >= 0 && i < len(s.mustHold) {
		return s.mustHold[i]
	}
	return slots.Range{}
}

// afterOf returns the acq that the horizon of a group must pass.
func (s *requestOptions) afterOf(group cluster.GroupID) int64 {
	switch i := slices.Index(s.groups, group); {
	case len(s.after) == 1:
		return s.after[0]
	case i >= 0 && i < len(s.after):
		return s.after[i]
	}
	return 0
}
