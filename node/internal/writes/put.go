package writes

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
)

// Put stores a batch in all groups that own devices of it, atomically in each group, and
// returns when all are done. Rows that are sent to a group again are stored once.
func (g Groups) Put(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (out store.PutResult, err error) {
	return g.put(ctx, b, w, nil, func(duplicatePart) {})
}

// put is Put, which calls onDuplicate for each part that was stored under the writer before. Unless
// newestNs is nil it refuses descriptions of devices that have newer ones.
func (g Groups) put(
	ctx context.Context, b *record.Batch, w store.WriterSeq, newestNs *int64,
	onDuplicate func(duplicatePart),
) (out store.PutResult, err error) {
	if err := b.Validate(); err != nil {
		return out, err
	}
	describing := !w.Persistent && store.Describes(b)
	if describing {
		if err := store.CheckDescribing(b); err != nil {
			return out, err
		}
	}
	pooledWriter := w.ID == [16]byte{}
	if pooledWriter {
		w = g.writers.Take()
	}
	out.Duplicate = !pooledWriter
	left := pendingPut{rows: b.Len(), rest: b, writer: w, onDuplicate: onDuplicate,
		describing: describing, newestNs: newestNs}
	err = g.retrySplits(ctx, func(v *cluster.View) error {
		return g.putParts(ctx, v, &left, &out)
	})
	switch {
	case errors.Is(err, store.ErrOtherSlots): // after member.SplitTimeout
		err = left.fail(err)
	case err == nil && pooledWriter: // else the client may retry with this writer
		g.writers.Give(w)
	}
	if err != nil {
		return store.PutResult{}, err
	}
	return out, nil
}

// pendingPut is the state of a put: the rows that are not stored yet.
type pendingPut struct {
	rows        int // of the put
	rest        *record.Batch
	origin      []uint32 // row of rest -> row of the put; nil if the same
	writer      store.WriterSeq
	mayBeStored bool // a group may have stored some of the rest before it was split
	describing  bool // names or descriptions, which the leaders check
	newestNs    *int64
	onDuplicate func(duplicatePart)
}

// fail returns the error of a put whose rest was not stored.
func (p *pendingPut) fail(err error) *PutError {
	e := &PutError{outcomes: make([]rowOutcome, p.rows), writer: p.writer, Err: err}
	f := rowNotStored
	if p.mayBeStored {
		f = rowUnknown
	}
	for i := range p.rest.Len() {
		row := uint32(i)
		if p.origin != nil {
			row = p.origin[i]
		}
		e.outcomes[row] = f
	}
	return e
}

// putParts puts rows to the groups of a view, and adds their answers to out. It leaves in left the
// rows that groups rejected because they were split.
//
// Errors: store.ErrOtherSlots, to retry; *PutError.
func (g Groups) putParts(
	ctx context.Context, v *cluster.View, left *pendingPut, out *store.PutResult,
) (err error) {
	b := left.rest
	rows := puts.RowsBySlot(b, v.Owners())
	memory := commandMemory.Get().(*[]byte)
	all, parts := appendPuts((*memory)[:0], v, rows, left)
	answers, errs := g.member.ProposeAll(ctx, parts, true)
	rest, origin := new(record.Batch), []uint32{}
	read := false // memory may still be read after an error
	var failed error
	for i := range parts {
		of := rows[parts[i].Group]
		read = read || errs[i] != nil || answers[i].Retried
		switch {
		case errors.Is(errs[i], store.ErrOtherSlots):
			puts.AppendRuns(rest, b, of)
			origin = append(origin, left.origins(of)...)
			left.mayBeStored = left.mayBeStored || answers[i].Retried
			err = errs[i]
			continue
		case errs[i] != nil:
			failed = cmp.Or(failed, errs[i])
			continue
		}
		p := answers[i].Put
		if p.Duplicate {
			left.onDuplicate(duplicatePart{parts[i].Group, left.origins(of), p})
		}
		if out.Records == 0 || p.FirstAcqNs < out.FirstAcqNs {
			out.FirstAcqNs = p.FirstAcqNs
		}
		out.LastAcqNs = max(out.LastAcqNs, p.LastAcqNs)
		// Before a split the group may have stored them with other rows.
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
			e.set(left.origins(rows[parts[i].Group]), outcomeOf(errs[i], answers[i].Retried))
		}
		return e
	}
	left.rest, left.origin = rest, origin
	return err
}

// origins maps rows of the rest to rows of the put.
func (p *pendingPut) origins(rows []uint32) []uint32 {
	if p.origin == nil {
		return rows
	}
	out := make([]uint32, len(rows))
	for i, row := range rows {
		out[i] = p.origin[row]
	}
	return out
}

// maxCommandMemory is the largest buffer for the commands of a batch that is pooled.
const maxCommandMemory = 4 << 20

var commandMemory = sync.Pool{New: func() any { return new([]byte) }}

// appendPuts appends the put commands of all groups, and returns them by group, too.
func appendPuts(
	dst []byte, v *cluster.View, rows [][]uint32, p *pendingPut,
) ([]byte, []member.Part) {
	parts, ends := make([]member.Part, 0, len(rows)), make([]int, 0, len(rows))
	for g, of := range rows {
		if group := cluster.GroupID(g); len(of) > 0 {
			if p.describing {
				dst = member.AppendCheck(dst, p.newestNs)
			}
			dst = commands.AppendPutRows(appendForSlots(dst, v, group, nil), p.rest, of, p.writer)
			parts, ends = append(parts, member.Part{Group: group}), append(ends, len(dst))
		}
	}
	from := 0
	for i, to := range ends { // not before: append may have moved dst
		parts[i].Data, from = dst[from:to:to], to
	}
	return dst, parts
}
