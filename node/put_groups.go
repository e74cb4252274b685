package node

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

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
		w = n.writerPool.take()
	}
	out.Duplicate = !own
	left := putting{rows: b.Len(), rest: b, writer: w}
	err = n.retrySplits(ctx, m, func(v *cluster.View) error {
		return n.putParts(ctx, m, v, &left, &out)
	})
	switch {
	case errors.Is(err, store.ErrOtherSlots): // for too long
		err = left.fail(err)
	case err == nil && own: // else the client may send it again
		n.writerPool.give(w)
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
