package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

var errNoView = errors.New("this node has not heard from its cluster yet; try again")

// avoidFor is how long a node that did not answer is asked only when nobody else can be.
const avoidFor = 2 * time.Second

// openMember takes the node's place in its cluster.
func (n *Node) openMember(ctx context.Context) error {
	n.peers, n.unproved = map[cluster.NodeID]*peer{}, make(chan struct{}, 1)
	n.restocked = make(chan struct{}, 1)
	config := n.opt.Cluster
	config.HTTPListen = n.server.listener.Addr().String()
	m, err := member.Open(ctx, member.Options{Dir: n.opt.Dir, Cluster: config, Store: n.opt.Store,
		Log: n.log, Fail: n.opt.Fail, MemoryBytes: n.opt.MemoryBytes, Changed: n.placeGroups,
		Passed: n.merged.pass})
	if err != nil {
		return err
	}
	err = n.plugins.join(m)
	n.member.Store(m) // from here on its groups are placed, see placeGroups
	if err != nil {
		return err
	}
	n.wg.Go(n.followCatalog)
	n.wg.Go(n.proveReplicas)
	return nil
}

// placeGroups makes the layout that of the cluster: groups of which a replica is here are asked
// here, others of a node that answers.
func (n *Node) placeGroups() {
	m := n.member.Load()
	if m == nil {
		return
	}
	n.placing.Lock() // installs of snapshots come beside what follows the view
	defer n.placing.Unlock()
	v := m.View()
	unreached := m.Unreached()
	old := n.layout.Load()
	next := &layout{groups: make([]*place, 0, v.DataGroups()), owners: v.Owners()}
	unproved := false
	for g := range v.DataGroups() {
		group := uint32(g) + 1
		from, to := v.Span(group)
		p := &place{span: slots.Range{From: from, To: to}, held: v.Groups[group].Slots,
			settling: v.Splitting(group)}
		if s := m.Store(group); s != nil {
			p.here = &local{Node: n, store: s, group: g, fromSlot: from, toSlot: to, held: p.held,
				proved: old.provedOf(g, s)}
			unproved = unproved || !p.here.proved.Load()
		}
		leader := m.Leader(group)
		var good, bad []*peer
		for _, r := range v.Voters(group) {
			at := n.peerOf(v, r.Node)
			if r.Node == m.Self() || at == nil {
				continue
			}
			at.unreached.Store(unreached[r.Node])
			switch {
			case time.Since(time.Unix(0, at.failedNs.Load())) < avoidFor, unreached[r.Node]:
				bad = append(bad, at)
			case r.Node == leader:
				good = append([]*peer{at}, good...)
			default:
				good = append(good, at)
			}
		}
		if p.others = append(good, bad...); len(p.others) > 0 {
			p.peer = p.others[0]
		}
		next.groups = append(next.groups, p)
	}
	next.keepPlaces(old)
	n.layout.Store(next)
	if unproved {
		poke(n.unproved)
	}
	if n.plugins.stale() {
		poke(n.restocked)
	}
}

// poke lets one who waits on a channel of one go on.
func poke(waits chan struct{}) {
	select {
	case waits <- struct{}{}:
	default:
	}
}

// placedHere returns nil once the layout has had all replicas that this node is to have: questions
// find them there, which comes a moment after they run.
func (n *Node) placedHere(m *member.Member) error {
	if n.placed.Load() {
		return nil
	}
	v, l := m.View(), n.layout.Load()
	for g := range v.DataGroups() {
		r, mine := v.ReplicaOn(uint32(g)+1, m.Self())
		if mine && !r.Learner && (g >= len(l.groups) || l.groups[g].here == nil) {
			return fmt.Errorf("group %d: its replica here is just starting", g+1)
		}
	}
	n.placed.Store(true)
	return nil
}

// peerOf returns a node of a view, nil when it cannot be asked.
func (n *Node) peerOf(v *cluster.View, id cluster.NodeID) *peer {
	at, ok := v.Node(id)
	if !ok || at.HTTPAddr == "" {
		return nil
	}
	name := at.HTTPAddr
	if p := n.peers[id]; p != nil && p.name == name {
		return p
	}
	c, err := client.New(name)
	if err != nil {
		return nil
	}
	n.peers[id] = &peer{id: id, name: name, client: c}
	return n.peers[id]
}

// putGroups stores a batch in all groups that own devices of it, each part whole or not at all, and
// returns when all have. A part that is sent again is stored once.
func (n *Node) putGroups(
	ctx context.Context, m *member.Member, b *record.Batch, w store.WriterSeq,
) (out store.PutResult, err error) {
	if err := b.Validate(); err != nil {
		return out, err
	}
	own := w.ID == [16]byte{}
	if own {
		w = n.drawn.take()
	}
	out.Duplicate = !own
	left := putting{rows: b.Len(), rest: b, writer: w}
	err = n.untilSplit(ctx, m, func(v *cluster.View) error {
		return n.putParts(ctx, m, v, &left, &out)
	})
	switch {
	case errors.Is(err, store.ErrOtherSlots): // for too long
		err = left.fail(err)
	case err == nil && own: // else the client may send it again
		n.drawn.give(w)
	}
	if err != nil {
		return store.PutResult{}, err
	}
	return out, nil
}

// putting is what is left of a put.
type putting struct {
	rows   int // of all
	rest   *record.Batch
	origin []uint32 // which rows of the put the rest is; nil for all
	writer store.WriterSeq
	doubt  bool // a group may have stored some of the rest before it was split
}

// fail returns the error of a put whose rest is not stored.
func (p *putting) fail(err error) *PutError {
	e := &PutError{fates: make([]fate, p.rows), writer: p.writer, Err: err}
	f := rowNotStored
	if p.doubt {
		f = rowUnknown
	}
	for i := range p.rest.Len() {
		row := uint32(i)
		if p.origin != nil {
			row = p.origin[i]
		}
		e.fates[row] = f
	}
	return e
}

// putParts puts rows to the groups of a view, and adds to out what they answer. Where groups were
// split since, left are the rows that they have not taken.
//
// Errors: store.ErrOtherSlots, to try again; *PutError.
func (n *Node) putParts(
	ctx context.Context, m *member.Member, v *cluster.View, left *putting, out *store.PutResult,
) (err error) {
	b, w := left.rest, left.writer
	rows := rowsBySlot(b, v.Owners())
	memory := commandMemory.Get().(*[]byte)
	all, parts := appendPuts((*memory)[:0], v, b, rows, w)
	answers, errs := m.DoAll(ctx, parts, true)
	rest, origin := new(record.Batch), []uint32{}
	read := false // by somebody still
	var failed error
	for i := range parts {
		of := rows[parts[i].Group-1]
		read = read || errs[i] != nil || answers[i].Again
		switch {
		case errors.Is(errs[i], store.ErrOtherSlots):
			appendRuns(rest, b, of)
			origin = append(origin, left.origins(of)...)
			left.doubt = left.doubt || answers[i].Again
			err = errs[i]
			continue
		case errs[i] != nil:
			failed = cmp.Or(failed, errs[i])
			continue
		}
		p := answers[i].Put
		if out.Records == 0 || p.FirstAcqNs < out.FirstAcqNs {
			out.FirstAcqNs = p.FirstAcqNs
		}
		out.LastAcqNs = max(out.LastAcqNs, p.LastAcqNs)
		// Before a split it may have stored them with others.
		out.Records += min(p.Records, len(of))
		out.Duplicate = out.Duplicate && p.Duplicate
	}
	if !read && cap(all) <= maxCommandMemory {
		*memory = all
		commandMemory.Put(memory)
	}
	if failed != nil {
		e := left.fail(failed)
		for i := range parts {
			e.set(left.origins(rows[parts[i].Group-1]), fateOf(errs[i], answers[i].Again))
		}
		return e
	}
	left.rest, left.origin = rest, origin
	return err
}

// origins returns which rows of the put some of the rest are.
func (p *putting) origins(rows []uint32) []uint32 {
	if p.origin == nil {
		return rows
	}
	out := make([]uint32, len(rows))
	for i, row := range rows {
		out[i] = p.origin[row]
	}
	return out
}

// maxCommandMemory is what of the commands of a batch is kept for those of the next one.
const maxCommandMemory = 4 << 20

var commandMemory = sync.Pool{New: func() any { return new([]byte) }}

// appendPuts appends the commands that put the rows of each group, one after the other, and returns
// them as parts, too.
func appendPuts(
	dst []byte, v *cluster.View, b *record.Batch, rows [][]uint32, w store.WriterSeq,
) ([]byte, []member.Part) {
	parts, ends := make([]member.Part, 0, len(rows)), make([]int, 0, len(rows))
	for g, of := range rows {
		if len(of) > 0 {
			group := uint32(g) + 1
			dst = store.AppendPutRows(appendGuarded(dst, v, group, nil), b, of, w)
			parts, ends = append(parts, member.Part{Group: group}), append(ends, len(dst))
		}
	}
	from := 0
	for i, to := range ends { // dst moved while it grew
		parts[i].Data, from = dst[from:to:to], to
	}
	return dst, parts
}

// hideInGroups erases or purges a box in all groups that can hold devices of it.
func (n *Node) hideInGroups(
	ctx context.Context, m *member.Member, box record.Box, purge bool,
) (acqNs int64, err error) {
	encode := store.AppendErase
	if purge {
		encode = store.AppendPurge
	}
	command, err := encode(nil, box)
	if err != nil {
		return 0, err
	}
	err = n.untilSplit(ctx, m, func(v *cluster.View) error {
		groups := v.GroupsOf(&box)
		if asked := scopeOf(ctx).groups; asked != nil {
			groups = slices.DeleteFunc(groups, func(group uint32) bool {
				return !slices.Contains(asked, int(group)-1)
			})
		}
		answers := make([]member.Answer, len(groups))
		errs := make([]error, len(groups))
		var wg sync.WaitGroup
		for i, group := range groups {
			wg.Go(func() {
				answers[i], errs[i] = m.Do(ctx, group, guarded(v, group, command), false)
			})
		}
		wg.Wait()
		for _, a := range answers {
			acqNs = max(acqNs, a.AcqNs)
		}
		return errors.Join(errs...)
	})
	return acqNs, err
}

// askMember answers what nodes of a cluster ask each other, and reports whether it was that.
func (s *server) askMember(ctx *fasthttp.RequestCtx, method, path string) bool {
	m := s.memberFor(ctx)
	if m == nil {
		return true
	}
	rc, cancel := s.context()
	defer cancel()
	answer, known, err := m.Serve(rc, method, path, string(ctx.Request.Header.Peek(
		member.KeyHeader)), func(name string) string {
		return string(ctx.QueryArgs().Peek(name))
	}, ctx.PostBody())
	switch {
	case !known:
		return false
	case err != nil:
		writeError(ctx, toWire(err))
	default:
		ctx.SetBody(answer)
	}
	return true
}
