package csvimport

import (
	"context"
	"errors"
	"io"
	"slices"
)

// Rows are the rows of a file whose columns have names and types.
type Rows interface {
	Columns() []string
	// Use says which columns will be looked at, before the first row.
	Use(columns []bool)
	// Typed reports whether the cells of a column are numbers in the file, and not texts.
	Typed(column int) bool
	// Next returns the cells of the next row as text, valid until the next call; nil is no value.
	// After the last it returns io.EOF.
	Next() ([][]byte, error)
}

// WallClock is the time format of times in [Rows] that belong to a zone which the mapping names.
const WallClock = "2006-01-02T15:04:05.999999999"

// Table imports the rows of one file by the names of their columns; the number of a line is that
// of a row. Records leave through Send as those of [Importer.File] do, and also those before an
// error of the rows.
func (im *Importer) Table(ctx context.Context, name string, rows Rows) error {
	m := im.mapping
	if m.NoHeader || m.NoQuotes || m.SkipLines > 0 || m.ExpectFields > 0 {
		return errors.New("no_header, no_quotes, skip_lines and expect_fields: only for text " +
			"files; leave them out for files with named columns")
	}
	im.begin(name, marks{head: -1})
	columns := rows.Columns()
	f := &file{im: im, name: name}
	if err := f.makePlan(newHeader(columns), make([][]byte, len(columns))); err != nil {
		return err
	}
	f.plan.nulls = true
	for i := range columns {
		f.plan.typed = append(f.plan.typed, rows.Typed(i))
	}
	rows.Use(f.plan.used())
	for number := 1; ; number++ {
		if err := ended(ctx, number); err != nil {
			return err
		}
		cells, err := rows.Next()
		if err != nil {
			if flushErr := im.flush(ctx); flushErr != nil || errors.Is(err, io.EOF) {
				return flushErr
			}
			return err
		}
		im.summary.Lines++
		if problem := f.plan.line(cells); problem != nil {
			err := im.reject(&RejectError{name, number, number, problem.kind, problem.reason}, nil)
			if err != nil {
				return errors.Join(im.flush(ctx), err)
			}
			continue
		}
		im.store(f.plan, number, number)
		if im.pending.Len() >= batchRecords {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// used returns which columns the plan looks at.
func (p *plan) used() []bool {
	out := make([]bool, p.fieldCount)
	mark := func(s *source) {
		if !s.label && s.fixed == nil {
			out[s.column] = true
		}
	}
	sources := slices.Concat(p.cap.sources, p.cap.zone.source.sources)
	for _, part := range []*partPlan{p.cid, p.mid, p.moid} {
		if part != nil {
			sources = append(sources, part.source.sources...)
		}
	}
	for i := range sources {
		mark(&sources[i])
	}
	for _, v := range p.values {
		out[v.column] = true
	}
	if p.deleted >= 0 {
		out[p.deleted] = true
	}
	return out
}

// valuesOf asks for the values of a file by its header, if the mapping leaves them to it.
func (m *Mapping) valuesOf(h *header) (err error) {
	if m.Columns == nil {
		return nil
	}
	if m.Values, err = m.Columns(h.names); err != nil {
		return err
	}
	for i := range m.Values {
		if err := m.checkValue(&m.Values[i]); err != nil {
			return err
		}
	}
	return nil
}
