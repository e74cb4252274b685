package csvimport

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// plan is a mapping resolved against the header of one file. It turns the fields of a line into
// records; commit then moves them to a batch.
type plan struct {
	im         *Importer
	header     *header
	fieldCount int
	cid, mid   *partPlan
	moid       *partPlan // nil when every value has its own
	cap        capPlan
	values     []valuePlan
	deleted    int    // the column that says it; -1: none
	nulls      bool   // a cell that is nil is no value
	typed      []bool // columns of numbers that were never text; nil: none

	// One line, reused.
	said     []reading // of several values
	keys     []record.Key
	ends     []int // of the payloads
	payloads []byte
	kind     quantity.Type // of the last value
	tomb     bool          // the readings are deleted
	folded   bool          // a time of this line occurs twice
	skipped  int64
}

type valuePlan struct {
	column  int
	label   string
	moid    *int64
	kind    quantity.Type
	byMOID  bool // kind is that of the quantity
	byName  bool // the quantity is the id of a name, which may have a type
	assumed bool // the mapping has no type for it
	raw     bool // the column is of payloads and not of values
	field   int  // of a reading of several values
}

// problem is why a line is rejected.
type problem struct{ kind, reason string }

func newPlan(im *Importer, h *header, fieldCount int, fileName string) (*plan, error) {
	m := im.mapping
	p := &plan{im: im, header: h, fieldCount: fieldCount}
	var err error
	resolve := func(d record.Dim, part *Part) *partPlan {
		if part == nil || err != nil {
			return nil
		}
		if m.Own {
			if part, err = ownPart(d, h); err != nil {
				return nil
			}
		}
		resolved := &partPlan{im: im, dim: d, part: part}
		if part.Constant != nil {
			err = m.places.at(d.String(), dimLimit(d, *part.Constant))
			return resolved
		}
		resolved.source, err = newNameSource(part.references(), h, fieldCount, fileName)
		if err != nil {
			err = m.places.at(d.String(), fmt.Errorf("%s: %w", d, err))
		}
		if part.Join != nil {
			resolved.join = im.joins[part.Join]
		}
		return resolved
	}
	p.cid = resolve(record.CID, m.CID)
	p.mid = resolve(record.MID, m.MID)
	p.moid = resolve(record.MOID, m.MOID)
	if err != nil {
		return nil, err
	}
	p.cap.constant = m.Cap.Constant
	for _, reference := range m.Cap.Columns {
		s, err := newSource(reference, h, fieldCount, fileName)
		if err != nil {
			return nil, m.places.at("cap.columns", fmt.Errorf("cap: %w", err))
		}
		p.cap.sources = append(p.cap.sources, s)
	}
	if p.cap.layout, err = timeparse.Compile(m.Cap.Format); err != nil {
		return nil, err
	}
	if m.Cap.Format == "" && !m.Own {
		p.cap.usual = usualLayouts()
	}
	if p.cap.zone, err = newZonePlan(im, h, fieldCount, fileName); err != nil {
		return nil, m.places.at("cap.zone", fmt.Errorf("cap: %w", err))
	}
	p.cap.fold = m.Cap.Fold
	if p.deleted, err = m.deletedColumn(h, fieldCount); err != nil {
		return nil, err
	}
	return p, p.planValues(h)
}

// deletedColumn returns the column that says whether a line deletes, -1 for none.
func (m *Mapping) deletedColumn(h *header, fieldCount int) (int, error) {
	if _, named := h.index[m.Deleted]; m.Deleted == "" || m.Own && !named {
		return -1, nil
	}
	column, err := h.column(m.Deleted, fieldCount)
	if err != nil {
		return 0, m.places.at("deleted", fmt.Errorf("deleted: %w", err))
	}
	return column, nil
}

func (p *plan) planValues(h *header) error {
	for i, v := range p.im.mapping.Values {
		at := func(err error) error {
			return p.im.mapping.places.at(fmt.Sprintf("values.%d", i+1), err)
		}
		kind, err := output.ParsePayloadType(v.Type)
		if err != nil {
			return err
		}
		var from, to int
		raw := false
		if v.Columns != "" {
			from, to, err = parseColumns(v.Columns)
			from, to = from-1, to-1
			if err == nil && to > p.fieldCount {
				err = fmt.Errorf("columns %s: lines have %d", v.Columns, p.fieldCount)
			}
		} else {
			if name, own := p.ownColumn(h); own {
				v.Column, kind, raw = name, output.ColumnType(name), true
			}
			from, err = h.column(v.Column, p.fieldCount)
			to = from + 1
		}
		if err == nil && v.MOID != nil {
			err = dimLimit(record.MOID, *v.MOID)
		}
		if err != nil {
			return at(fmt.Errorf("value %d: %w", i+1, err))
		}
		for column := from; column < to; column++ {
			field, err := p.fieldOf(&v, h.name(column))
			if err != nil {
				return at(fmt.Errorf("value %d: %w", i+1, err))
			}
			p.values = append(p.values, valuePlan{column, h.name(column), v.MOID, kind,
				v.ByMOID && !raw, p.im.mapping.byName(&v) && !raw, v.assumed, raw, field})
		}
	}
	return nil
}

// ownColumn returns the column of payloads of a file that pentad wrote without values.
func (p *plan) ownColumn(h *header) (name string, found bool) {
	_, values := h.index["value"]
	if _, same := p.im.opt.Types.(quantity.Type); values || same || p.im.opt.Types == nil {
		return "", false
	}
	for _, kind := range []quantity.Type{quantity.Base64, quantity.Hex} {
		name = output.PayloadColumn(kind).Name
		if _, found = h.index[name]; found {
			return name, true
		}
	}
	return "", false
}

// kindOf is the type of a value of a line.
func (p *plan) kindOf(fields [][]byte, v *valuePlan) quantity.Type {
	if v.byName {
		return p.kindOfName(fields, v)
	}
	if !v.byMOID {
		return v.kind
	}
	moid, _ := p.moid.value(fields, v.label, 0) // a bad one is found with the key
	return p.im.opt.Types.Of(int32(moid))
}

// line reads one line. Parts are looked at only when a cell holds a value, so a line of skipped
// cells needs no time and no key.
func (p *plan) line(fields [][]byte) *problem {
	p.keys, p.ends, p.payloads = p.keys[:0], p.ends[:0], p.payloads[:0]
	p.folded, p.skipped = false, 0
	if len(fields) != p.fieldCount {
		return p.wrongFields(fields)
	}
	if bad := p.readDeleted(fields); bad != nil {
		return bad
	}
	if p.im.opt.Readings != nil {
		return p.readings(fields)
	}
	var shared lineParts
	for i := range p.values {
		v := &p.values[i]
		skipped, bad := p.cell(fields, v) // first: a bad one must not give a name an id
		if bad != nil {
			return bad
		}
		if skipped {
			p.skipped++
			continue
		}
		key, bad := p.key(fields, v, &shared)
		if bad != nil {
			return bad
		}
		bad = p.fits(key.MOID, v)
		if bad == nil {
			bad = p.noteQuantity(fields, v, key.MOID)
		}
		if bad != nil {
			return bad
		}
		p.keys = append(p.keys, key)
		p.ends = append(p.ends, len(p.payloads))
	}
	if p.folded && p.cap.fold != FoldBoth {
		return p.claimFold()
	}
	return nil
}

// wrongFields says that a line has too many fields, or too few.
func (p *plan) wrongFields(fields [][]byte) *problem {
	n := len(fields)
	text := fmt.Sprintf("%d fields, expected %d", n, p.fieldCount)
	if n == 1 {
		text = fmt.Sprintf("1 field, expected %d", p.fieldCount)
	}
	if n == p.fieldCount+1 && len(fields[n-1]) == 0 && !p.im.mapping.Own {
		text += fmt.Sprintf("; the last is empty: if lines end in a separator, set expect_fields: "+
			"%d (--expect-fields %d)", n, n)
	}
	return &problem{"fields", text}
}

// fits says why the last payload does not fit its quantity.
func (p *plan) fits(moid int32, v *valuePlan) *problem {
	if p.im.opt.Types == nil || p.tomb {
		return nil
	}
	if why := p.contradicts(moid, v); why != "" {
		return &problem{"value", fmt.Sprintf("%s: %s", p.column(v.column), why)}
	}
	from := 0
	if len(p.ends) > 0 {
		from = p.ends[len(p.ends)-1]
	}
	if err := p.im.opt.Types.Check(moid, p.payloads[from:]); err != nil {
		way := ""
		if p.im.mapping.Own {
			way = "; --type base64 stores it as it is"
		}
		return &problem{"value", fmt.Sprintf("%s: %v%s", p.column(v.column), err, way)}
	}
	return nil
}

// readDeleted notes whether the readings of the line are deleted.
func (p *plan) readDeleted(fields [][]byte) *problem {
	if p.tomb = false; p.deleted < 0 {
		return nil
	}
	switch cell := bytes.TrimSpace(fields[p.deleted]); string(cell) {
	case "true":
		p.tomb = true
	case "false", "":
	default:
		return &problem{"value", fmt.Sprintf("%s: deleted is %q, neither true nor false",
			p.column(p.deleted), clip(cell))}
	}
	return nil
}

// lineParts keeps the parts that all values of a line share.
type lineParts struct {
	known         bool
	cid, mid, cap int64
}

func (p *plan) key(fields [][]byte, v *valuePlan, shared *lineParts) (record.Key, *problem) {
	var bad *problem
	part := func(pp *partPlan, cid int64) int64 {
		if bad != nil {
			return 0
		}
		var n int64
		n, bad = pp.value(fields, v.label, int32(cid))
		return n
	}
	if !shared.known {
		shared.cid = part(p.cid, 0)
		shared.mid = part(p.mid, shared.cid)
	}
	if bad == nil && (!shared.known || p.cap.labelled()) {
		var folded bool
		shared.cap, folded, bad = p.cap.value(fields, v.label)
		p.folded = p.folded || folded
	}
	key := record.Key{CID: int32(shared.cid), MID: shared.mid, CapNs: shared.cap}
	if v.moid != nil {
		key.MOID = int32(*v.moid)
	} else {
		key.MOID = int32(part(p.moid, 0))
	}
	shared.known = !p.cid.source.labelled() && !p.mid.source.labelled()
	return key, bad
}

// claimFold keeps the rules first and second from making versions: of two lines with one key in
// an hour that occurs twice, the second is rejected.
func (p *plan) claimFold() *problem {
	for i, key := range p.keys {
		if _, taken := p.im.folds[key]; taken || slices.Contains(p.keys[:i], key) {
			return &problem{"fold", fmt.Sprintf("local time of %s occurs twice, and an earlier "+
				"line has this key; fold %s keeps both as versions", timeparse.Format(key.CapNs),
				FoldBoth)}
		}
	}
	if len(p.im.folds)+len(p.keys) > maxFoldKeys {
		return &problem{"fold", fmt.Sprintf("more than %d readings in hours that occur twice; use "+
			"fold %s", maxFoldKeys, FoldBoth)}
	}
	for _, key := range p.keys {
		p.im.folds[key] = struct{}{}
	}
	p.im.summary.Folded++
	return nil
}

// commit moves the records of the line to a batch.
func (p *plan) commit(b *record.Batch) {
	from := 0
	for i, key := range p.keys {
		if p.tomb {
			b.AppendTomb(key)
			continue
		}
		b.Append(key, p.payloads[from:p.ends[i]])
		from = p.ends[i]
	}
	p.im.summary.Skipped += p.skipped
}

// partPlan makes one part of the key.
type partPlan struct {
	im     *Importer
	dim    record.Dim
	part   *Part
	source nameSource
	join   map[string]string
}

// value returns the part, given the tenant of the line for names of devices.
func (pp *partPlan) value(fields [][]byte, label string, cid int32) (int64, *problem) {
	if pp.part.Constant != nil {
		return *pp.part.Constant, nil
	}
	text, bad := pp.text(fields, label)
	if bad != nil {
		return 0, bad
	}
	if pp.part.Lookup != "" {
		if len(text) == 0 {
			return 0, &problem{"key", fmt.Sprintf("%s: the name is empty", pp.dim)}
		}
		if !utf8.Valid(text) { // the lookup file could not hold it
			return 0, &problem{"key", fmt.Sprintf("%s: the name %q is not UTF-8; %s", pp.dim,
				clip(text), convertHint)}
		}
		if err := pp.im.lookups.check(pp.dim, text); err != nil {
			return 0, &problem{"key", fmt.Sprintf("%s: %s", pp.dim, err)}
		}
		if pp.im.findOnly() {
			return pp.im.find(pp.dim, cid, text)
		}
		return pp.checked(pp.im.lookups.ID(pp.part.Lookup, text))
	}
	if pp.im.mapping.Own && pp.im.opt.Find != nil {
		return pp.im.find(pp.dim, cid, text)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case len(text) == 0:
		return 0, &problem{"key", fmt.Sprintf("%s: the number is empty", pp.dim)}
	case errors.Is(err, strconv.ErrRange):
		return 0, &problem{"key", fmt.Sprintf("%s: %s is outside %d to %d", pp.dim, clip(text),
			pp.dim.Min(), pp.dim.Max()-1)}
	case err != nil:
		return 0, &problem{"key",
			fmt.Sprintf("%s: %q is not an integer; use a lookup to map names to ids", pp.dim,
				clip(text))}
	}
	return pp.checked(n)
}

// text returns the name or number of the part, through its join.
func (pp *partPlan) text(fields [][]byte, label string) ([]byte, *problem) {
	text, missing := pp.source.text(fields, label)
	if missing != "" {
		return nil, &problem{"key", fmt.Sprintf("%s: column %q is empty; a name of several "+
			"columns needs all of them", pp.dim, missing)}
	}
	if pp.part.Join == nil {
		return text, nil
	}
	joined, ok := pp.join[string(text)]
	if !ok {
		return nil, &problem{"key", fmt.Sprintf("%s: %q is not in %s", pp.dim, clip(text),
			pp.part.Join.File)}
	}
	return []byte(joined), nil
}

func (pp *partPlan) checked(n int64) (int64, *problem) {
	if err := dimLimit(pp.dim, n); err != nil {
		return 0, &problem{"key", err.Error()}
	}
	return n, nil
}
