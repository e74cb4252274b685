package engine

import (
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// bindWhere returns the query with its condition bound to the quantities that are declared, so that
// all sources understand it alike. One that another node or the client has bound stays as it is.
//
// Errors: *record.InvalidError for fields and types that the quantities do not have.
func (e *Engine) bindWhere(q *record.Query) (*record.Query, error) {
	if q.Where == "" || where.IsBound(q.Where) {
		return q, nil
	}
	asked := q.Box.Asked(record.MOID)
	moids := make([][2]int64, len(asked))
	for i, r := range asked {
		moids[i] = [2]int64{r.From, r.To}
	}
	text, err := where.Bind(q.Where, e.plugins.Quantities(), moids)
	if err != nil {
		return nil, &record.InvalidError{Part: "where", Reason: record.Inconsistent, Row: -1,
			Detail: err.Error()}
	}
	bound := *q
	bound.Where = text
	return &bound, nil
}

// rowsMeeting returns those of the picked rows whose payloads meet a condition.
func rowsMeeting(p *where.Program, rows *record.Batch, picked []uint32) []uint32 {
	kept := picked[:0]
	for _, i := range picked {
		if p.Match(rows.MOID[i], rows.Payload(int(i))) {
			kept = append(kept, i)
		}
	}
	return kept
}
