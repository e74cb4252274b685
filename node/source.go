package node

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// source answers questions from some of the groups of slots: a store of this node or another node.
// A series lies in one source, so what each says of versions and last readings is right by itself.
// A filter or aggregate is that of the query; order and limit see [source.rows].
//
// Errors name the source where it is at fault, see [SourceError].
type source interface {
	// rows hands rows to add, several batches at a time, each valid during the call. With an order
	// and a limit they hold those that come first; else they are in no order. What has come whole
	// and is sorted may go to sorter instead, which is nil without an order.
	rows(ctx context.Context, q *record.Query, add store.Sink, sorter *spill.Sorter) (wire.End,
		error)
	// count returns an end whose rows are the count.
	count(ctx context.Context, q *record.Query) (wire.End, error)
	// states returns the groups of an aggregate before they are joined and finished. When they do
	// not fit into memory, all of them are in the overflow.
	states(ctx context.Context, q *record.Query, module *pluginVersion, over *overflow) (*saved,
		wire.End, error)
	diff(ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error) (wire.End,
		error)
	versions(ctx context.Context, box *record.Box, room *answerRoom) ([]record.Version, wire.End,
		error)
	// changes hands over slices up to the horizon, and with follow goes on and says how far it is
	// every sourceBeat, and sooner when the demand asks for it.
	changes(ctx context.Context, q *record.Query, fromNs int64, follow bool, d *demand,
		emit func(*store.Slice) error) error
	explain(ctx context.Context, q *record.Query) ([]SourceExplanation, error)
	horizon(ctx context.Context, box *record.Box) (int64, error)
	hide(ctx context.Context, box record.Box, purge bool) (acqNs int64, err error)
	digest(ctx context.Context, box record.Box, cuts []int64) (digests, error)
	events(ctx context.Context) ([]store.Event, error)
	policies(ctx context.Context) ([]Policy, error)
	// state returns that of each group that is asked.
	state(ctx context.Context) ([]store.State, error)
	// cut divides a range of acq for each group that is asked, as [store.Store.Cut].
	cut(ctx context.Context, fromNs, toNs int64, rows uint64) ([][]int64, error)
}

// layout says which source answers for each group of slots. It is immutable.
type layout struct {
	groups []*place   // by number
	owners *slots.Map // which of them own which slots
	only   *local     // where one store of this node has everything, else nil
}

// place is where a group is: here or on another node.
type place struct {
	span slots.Range // that it owns
	// held is the same of a group that was split, or split off; else it is zero, as its store knows
	// of none then.
	held     slots.Range
	settling bool // it is parting from another group, and may have to be asked again

	here   *local
	peer   *peer
	others []*peer // hold it, too
}

// nobody reports whether there is no one to ask of the group.
func (p *place) nobody() bool { return p.here == nil && p.peer == nil }

// keepPlaces leaves groups of which nobody can be asked where they were before, if that is known:
// they keep nobody from what is known of the others.
func (l *layout) keepPlaces(old *layout) {
	for g, p := range l.groups {
		if p.nobody() && len(old.groups) == len(l.groups) {
			l.groups[g] = old.groups[g]
		}
	}
}

// provedOf returns what a store of this node has proved as long as it was asked; see [local].
func (l *layout) provedOf(group int, s *store.Store) *atomic.Bool {
	if group < len(l.groups) {
		if here := l.groups[group].here; here != nil && here.store == s {
			return here.proved
		}
	}
	return new(atomic.Bool)
}

// oneStore is the layout of a node by itself.
func oneStore(l *local) *layout {
	all := slots.Range{To: slots.Count}
	owners, _ := slots.NewMap([]slots.Range{all})
	return &layout{groups: []*place{{span: all, here: l}}, owners: owners, only: l}
}

// SourceError is a failure of one of several sources of an answer.
type SourceError struct {
	Source string // a group of this node, or another node
	Err    error
}

func (e *SourceError) Error() string { return e.Source + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

// sources returns what answers a question about a box: one source for each group of this node, and
// one for each other node with all of the groups that it is asked for.
func (n *Node) sources(ctx context.Context, box *record.Box) ([]source, error) {
	l := n.layout.Load()
	if len(l.groups) == 0 {
		return nil, errNoView
	}
	var wanted []bool // nil for all
	asked := scopeOf(ctx)
	if asked.groups == nil && asked.only == 0 {
		wanted = l.owners.Parts(box)
	}
	return n.sourcesOf(ctx, l, func(g int) bool {
		return (wanted == nil || wanted[g]) && (asked.only == 0 || asked.only == numberOf(g))
	})
}

// sourcesOf returns the sources of the groups that are wanted, and among those that a scope names.
func (n *Node) sourcesOf(
	ctx context.Context, l *layout, wanted func(group int) bool,
) (out []source, err error) {
	asked := scopeOf(ctx)
	remotes := map[*peer]*distant{}
	for g, p := range l.groups {
		switch {
		case !wanted(g), asked.groups != nil && !slices.Contains(asked.groups, g):
		case p.here != nil && (asked.groups != nil || p.peer == nil || p.here.holds() == nil):
			here := *p.here
			here.handing = new(handing)
			here.afterNs = max(asked.afterOf(g), n.seen(g, asked.groups))
			here.linear = asked.linear
			if asked.groups != nil {
				here.held = asked.heldOf(g)
			}
			out = append(out, &here)
		case asked.groups != nil:
			return nil, notHere(g)
		case p.nobody():
			return nil, noPlace(g)
		default:
			r := remotes[p.peer]
			if r == nil {
				r = &distant{peer: p.peer, budget: n.opt.ResultBytes, linear: asked.linear}
				if m := n.member.Load(); m != nil {
					r.teller = m
				}
				remotes[p.peer] = r
				out = append(out, r)
			}
			r.add(g, p, max(asked.afterOf(g), n.seen(g, nil)))
		}
	}
	return out, nil
}

// notHere refuses a question that would have to be asked of yet another node: whoever asks for
// groups by number knows where they are, or has to learn it anew.
func notHere(group int) error {
	return &wire.Error{Kind: wire.KindNotFound, Part: "groups", Message: fmt.Sprintf(
		"group %d is not on this node; ask for the places of groups again", numberOf(group))}
}

// noPlace is the error of a group of which this node knows nobody to ask.
func noPlace(group int) error {
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: retryAfterMs,
		Message: fmt.Sprintf("no node is known that answers for group %d, whose replica may have "+
			"stopped; pentad cluster shards says where it is", numberOf(group))}
}

// cutOff is the error of a group whose replica here has lost its leader: what others have
// acknowledged does not come here.
func cutOff(group int) error {
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: retryAfterMs,
		Message: fmt.Sprintf("group %d: %v", numberOf(group), member.ErrCutOff)}
}

// movedAway is the error of a group that was here when somebody asked for it: another node has it.
func movedAway(group int) error {
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: retryAfterMs,
		Message: fmt.Sprintf("group %d is not on this node any more, or its replica here has lost "+
			"its leader", numberOf(group))}
}

// notThere is the error of an acq far ahead of the clock that a question was to wait for, which has
// a place among the queries meanwhile: it is not of this cluster, or of a clock that was wrong.
func notThere(group int, acqNs int64) error {
	return &wire.Error{Kind: wire.KindUnavailable, Part: paramAfter, RetryAfterMs: retryAfterMs,
		Message: fmt.Sprintf("group %d is not as far as acq %s, which lies ahead of the clock of "+
			"this node; is it of this cluster?", numberOf(group), record.FormatNs(acqNs))}
}

// nearby returns a source that waits for an acq before it answers; the same one where it need not.
func (n *Node) nearby(l *local, afterNs int64) *local {
	if afterNs == 0 {
		return l
	}
	later := *l
	later.afterNs = afterNs
	return &later
}

// seen returns the acq below which whoever asks this node may expect to read everything of a group:
// what was put through this node. Who is asked by another node waits for what that one says.
func (n *Node) seen(group int, asked []int) int64 {
	m := n.member.Load()
	if m == nil || asked != nil {
		return 0
	}
	return m.Seen(uint32(group) + 1)
}

// otherReplica returns the source of a replica of another node, for one here that is damaged; nil
// when there is none. Who was asked by another node leaves it to that one.
func (n *Node) otherReplica(ctx context.Context, damaged *local) []source {
	l, g := n.layout.Load(), damaged.group
	if scopeOf(ctx).groups != nil || g >= len(l.groups) || len(l.groups[g].others) == 0 {
		return nil
	}
	p := l.groups[g]
	r := &distant{peer: p.others[0], budget: n.opt.ResultBytes, linear: damaged.linear}
	r.add(g, p, damaged.afterNs)
	return []source{r}
}

// instead returns other sources for the groups of one that fails or is silent, with the same
// promises; nil when there are none.
func (n *Node) instead(failed *distant) (out []*distant) {
	l := n.layout.Load()
	tried := append(slices.Clone(failed.tried), failed.peer)
	remotes := map[*peer]*distant{}
	for i, g := range failed.groups {
		if g >= len(l.groups) || l.groups[g].span != failed.spans[i] {
			return nil
		}
		p := l.groups[g]
		k := slices.IndexFunc(p.others, func(o *peer) bool { return !slices.Contains(tried, o) })
		if k < 0 {
			return nil
		}
		r := remotes[p.others[k]]
		if r == nil {
			r = &distant{peer: p.others[k], budget: failed.budget, linear: failed.linear,
				tried: tried}
			remotes[r.peer] = r
			out = append(out, r)
		}
		r.add(g, p, failed.after[i])
	}
	return out
}
