package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// SelectorNotes says which keys of the selector of a normalized query are nearly others, and which
// no device of its tenant has, as its view knows them. It is silent where that cannot be found out.
//
// Cost: for each key of an attribute, that of a selector.
func (e *Engine) SelectorNotes(
	ctx context.Context, options request.Options, q *record.Query,
) (notes []string) {
	s, err := registry.ParseSelector(q.Select)
	if err != nil || q.Select == "" || len(q.Box[record.CID]) != 1 || options.Groups != nil {
		return nil
	}
	keys := s.Attributes()
	for _, doubt := range s.Doubts() {
		notes = append(notes, "a condition on the attribute "+doubt)
		keys = slices.DeleteFunc(keys, func(key string) bool {
			return strings.HasPrefix(doubt, key+";")
		})
	}
	for _, key := range keys {
		if has, err := e.anyHas(ctx, options, q, key); err == nil && !has {
			notes = append(notes, fmt.Sprintf("no device of tenant %d has the attribute %s",
				q.Box[record.CID][0].From, key))
		}
	}
	return notes
}

// anyHas reports whether a device of the tenant of a query has an attribute.
func (e *Engine) anyHas(
	ctx context.Context, options request.Options, q *record.Query, key string,
) (has bool, err error) {
	one := &record.Query{View: record.ViewLatest, Last: 1, KeysOnly: true, Limit: 1,
		Select: registry.AnyValue(key)}
	if q.View == record.ViewAsOf {
		one.View, one.AsOfAcqNs = q.View, q.AsOfAcqNs
	}
	one.Box[record.CID] = q.Box[record.CID]
	one.Box[record.MOID] = record.RangeSet{record.At(record.DescriptionMOID)}
	if err := one.Normalize(); err != nil {
		return false, err
	}
	_, err = e.Query(ctx, options.CompleteOnly(), one, func(b *record.Batch) error {
		has = has || b.Len() > 0
		return nil
	})
	return has, err
}
