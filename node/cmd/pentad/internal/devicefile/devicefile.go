package devicefile

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
)

// Options of an Importer.
type Options struct {
	// Store takes changes in the order of the file; they are reused after it returns. Required.
	Store func(context.Context, []client.DeviceChange) error
	// Rejects gets one CSV line per rejected line: file, line, reason, text. May be nil.
	Rejects io.Writer
	// Strict ends the import at the first rejected line.
	Strict bool
	// FromNs is the time from which rows without one hold, Now that at which the import begins.
	FromNs int64
	Now    time.Time
}

// Importer imports files that share one mapping. It is not safe for concurrent use.
type Importer struct {
	lines   *csvimport.Importer
	mapping *Mapping
	times   times
	plan    *plan // of the file; nil: objects by the names of their members
	objects bool  // the file is JSON
	left    []string
	met     map[string]bool // members of JSON that templates name, and whether an object has them

	rows []client.DeviceChange // that wait for Store
}

// New checks a mapping.
func New(m *Mapping, opt Options) (*Importer, error) {
	im := &Importer{mapping: m, met: map[string]bool{}}
	var err error
	if im.times, err = newTimes(m, opt.Now, opt.FromNs); err != nil {
		return nil, err
	}
	if !m.byNames() {
		if _, err := m.plan(im.times); err != nil {
			return nil, err
		}
	}
	send := func(ctx context.Context, _ *record.Batch) error {
		err := opt.Store(ctx, im.rows)
		im.rows = im.rows[:0]
		return err
	}
	zero := int64(0) // keys say nothing: the changes have names and times
	lines := &csvimport.Mapping{Separator: m.Separator, NoQuotes: m.NoQuotes,
		NoHeader: m.NoHeader, SkipLines: m.SkipLines, ExpectFields: m.ExpectFields, Skip: m.Skip,
		Decimal: m.Decimal, CID: &csvimport.Part{Constant: &zero},
		MID: &csvimport.Part{Constant: &zero}, MOID: &csvimport.Part{Constant: &zero},
		Cap: &csvimport.Cap{Constant: &zero}, Columns: im.columns}
	im.lines, err = csvimport.New(lines, csvimport.Options{Send: send, Rejects: opt.Rejects,
		Strict: opt.Strict, Readings: im})
	return im, err
}

// Summary counts what was read: a record is a change.
func (im *Importer) Summary() csvimport.Summary { return im.lines.Summary() }

// Left returns the columns of all files that are no keys of attributes, and were left out.
func (im *Importer) Left() []string { return im.left }

// Unmet returns the members that templates name and no object of JSON has.
func (im *Importer) Unmet() (members []string) {
	for member, met := range im.met {
		if !met {
			members = append(members, member)
		}
	}
	slices.Sort(members)
	return members
}

// CSV imports a file of separated values, plain or gzip. Changes of the file have left through
// Store when it returns, those before the line of a *[csvimport.RejectError] included.
func (im *Importer) CSV(ctx context.Context, name string, r io.Reader) error {
	im.objects = false
	return im.lines.File(ctx, name, r)
}

// columns returns the columns that the mapping asks for, by the header of a file.
func (im *Importer) columns(header []string) (values []csvimport.Value, err error) {
	im.plan = nil
	byNames := im.mapping.byNames()
	switch {
	case im.objects && byNames:
		return []csvimport.Value{{Column: objectColumn, Field: objectColumn}}, nil
	case byNames:
		named := *im.mapping
		left, err := named.namesOf(header)
		if err != nil {
			return nil, err
		}
		for _, column := range left {
			if !slices.Contains(im.left, column) {
				im.left = append(im.left, column)
			}
		}
		im.plan, err = named.plan(im.times)
		if err != nil {
			return nil, err
		}
	default:
		if im.plan, err = im.mapping.plan(im.times); err != nil {
			return nil, err
		}
	}
	if im.objects {
		return []csvimport.Value{{Column: objectColumn, Field: objectColumn}}, nil
	}
	for _, column := range im.plan.columns {
		if _, isNumber := strconv.Atoi(column); isNumber != nil && len(header) > 0 &&
			!strings.HasPrefix(column, "@") && !slices.Contains(header, column) {
			return nil, fmt.Errorf("{%s}: the file has no such column%s; it has %s", column,
				excerpt.DidYouMean(column, header), excerpt.Of(strings.Join(header, ", "), 200))
		}
		values = append(values, csvimport.Value{Column: column, Field: column})
	}
	return values, nil
}

// Fields implements csvimport.Readings.
func (im *Importer) Fields() (names []string, texts []bool) {
	names = []string{objectColumn}
	if !im.objects && im.plan != nil {
		names = im.plan.columns
	}
	texts = make([]bool, len(names))
	for i := range texts {
		texts[i] = true
	}
	return names, texts
}

// Append implements csvimport.Readings: it keeps the change of a row. The payload is its number.
func (im *Importer) Append(dst []byte, _ int64, cells [][]byte) ([]byte, error) {
	var c client.DeviceChange
	var err error
	if im.objects {
		c, err = im.object(cells[0])
	} else {
		c, err = im.plan.change(cells)
	}
	if err != nil {
		return dst, err
	}
	im.rows = append(im.rows, c)
	return binary.LittleEndian.AppendUint32(dst, uint32(len(im.rows))), nil
}
