package seal

import (
	"context"
	"errors"
	"fmt"
	"math/big"
)

// ErrUnexpected says that a sum is not of the records that were asked for.
var ErrUnexpected = errors.New("is not what was expected")

// Expect says what a sum must be of, so that a node cannot give the sum of other records unnoticed.
// The zero value expects nothing.
type Expect struct {
	// Series reports whether a series was asked for; nil: all of the tenant.
	Series func(mid int64, moid int32) bool
	// MinCount and MaxCount bound the number of readings; a MaxCount of 0 is no bound. A MinCount
	// keeps the sums of very few from being read by mistake.
	MinCount, MaxCount uint64
	// RequireMAC rejects sums that are not authenticated.
	RequireMAC bool
	// NoDeltas rejects sums with corrections by difference. Set it for sums of latest versions,
	// which such a correction makes wrong; no MAC proves which records are some, so that a node
	// could also say it of readings, and they would not count in a mean.
	NoDeltas bool
}

// Sums are what a partial says, decrypted.
type Sums struct {
	schema *Schema
	count  uint64
	lanes  []wide
	times  [][2]wide
	// Authentic: the sums are those of the records that the partial names, unchanged. That these
	// are all that were asked for, no MAC can prove.
	Authentic bool
}

// Decrypt reads the sums of a partial.
//
// Cost: for each chain of each series whose keys are not kept their derivation, some 3 us, and two
// calls of the cipher for each run of records, or where runs are short a keystream from the first
// to the last.
//
// Errors: [ErrUnexpected], [ErrTampered], [ErrImplausible], [ErrNoKey].
func (t *Tenant) Decrypt(ctx context.Context, p *Partial, e Expect) (*Sums, error) {
	s, err := t.schema(p.schema.ID())
	if err != nil {
		return nil, err
	}
	if err := p.schema.checked().differs(s.checked()); err != nil {
		return nil, fmt.Errorf("partial %w", err)
	}
	d := decryption{schema: s, lanes: append([]wide(nil), p.lanes...)}
	records, gone := uint64(0), destroyed{}
	for id, chains := range p.series {
		if id.cid != t.cid {
			return nil, fmt.Errorf("sum with records of tenant %d: %w", id.cid, ErrUnexpected)
		}
		if e.Series != nil && !e.Series(id.mid, id.moid) {
			return nil, fmt.Errorf("sum with records of mid %d, moid %d: %w", id.mid, id.moid,
				ErrUnexpected)
		}
		for c, rs := range chains {
			kept := keptChain{s.ID(), c.keyID, id.mid, id.moid, c.chain}
			err := t.withChain(ctx, s, kept, func(keys *chainKeys) error {
				d.take(keys, rs)
				return nil
			})
			if err = gone.note(id.mid, err); err != nil {
				return nil, err
			}
			records += rs.count()
		}
	}
	if err := gone.err(t.cid); err != nil {
		return nil, err
	}
	if records != p.count+p.deltas {
		return nil, fmt.Errorf("sum of %d records says that it is of %d: %w", records,
			p.count+p.deltas, ErrTampered)
	}
	if err := e.check(s, p.count, p.deltas); err != nil {
		return nil, err
	}
	out := &Sums{schema: s, count: p.count, times: p.times, lanes: d.finish()}
	if err := d.authenticate(out, p, e); err != nil {
		return nil, fmt.Errorf("sum of %d readings: %w", p.count, err)
	}
	return out, out.checkPlausible(p.deltas)
}

// DecryptAll reads the sums of several partials together, which have no record in common. It checks
// the MAC of each: partials of one key each are authenticated where a sum of all is not.
//
// Errors: as [Tenant.Decrypt]; [ErrDuplicate].
func (t *Tenant) DecryptAll(ctx context.Context, parts []*Partial, e Expect) (*Sums, error) {
	if len(parts) == 1 {
		return t.Decrypt(ctx, parts[0], e)
	}
	var whole *Partial
	var out *Sums
	each := e
	each.MinCount = 0
	for _, p := range parts {
		sums, err := t.Decrypt(ctx, p, each)
		if err != nil {
			return nil, err
		}
		if whole == nil {
			whole = NewPartial(p.schema)
			out = &Sums{schema: sums.schema, lanes: make([]wide, len(sums.lanes)),
				Authentic: true}
		}
		if err := whole.Merge(p); err != nil {
			return nil, err
		}
		for i := range out.lanes {
			out.lanes[i] = out.lanes[i].plus(sums.lanes[i])
		}
		out.Authentic = out.Authentic && sums.Authentic
	}
	if whole == nil {
		return nil, fmt.Errorf("sum of no partials: %w", ErrUnexpected)
	}
	out.count, out.times = whole.count, whole.times
	return out, e.check(out.schema, out.count, whole.deltas)
}

// check says how the number of readings differs from what was expected.
func (e *Expect) check(s *Schema, count, deltas uint64) error {
	switch {
	case e.NoDeltas && deltas > 0:
		return fmt.Errorf("sum with %d corrections by difference, which belong into sums of all "+
			"versions only: %w", deltas, ErrUnexpected)
	case count < e.MinCount:
		return fmt.Errorf("sum of %d readings: at least %d were to be in it (min count): %w",
			count, e.MinCount, ErrUnexpected)
	case e.MaxCount > 0 && count > e.MaxCount:
		return fmt.Errorf("sum of %d readings: at most %d were to be in it (max count): %w",
			count, e.MaxCount, ErrUnexpected)
	case count > s.def.MaxRecords:
		return fmt.Errorf("sum of %d readings: max_records of schema %d is %d, beyond which it "+
			"may have overflowed; ask for fewer readings at once, and give a schema with a "+
			"greater max_records another number: %w", count, s.ID(), s.def.MaxRecords,
			ErrUnexpected)
	}
	return nil
}

// decryption takes the pads of records from the sums of their lanes.
type decryption struct {
	schema *Schema
	lanes  []wide
	macPad element
	macKey *macKey
	scopes map[macScope]bool
}

// macScope is what the factors of a MAC are derived from.
type macScope struct {
	key  Key
	moid int32
}

// take takes the pads of records of one chain.
func (d *decryption) take(c *chainKeys, rs runs) {
	for field, p := range c.pads {
		if p == nil {
			continue
		}
		p.ends(rs, func(row []byte, last bool) {
			for i := range d.schema.lanes {
				l := &d.schema.lanes[i]
				if l.field != field {
					continue
				}
				if pad := loadLane(row[l.pad:], l.width); last {
					d.lanes[i] = d.lanes[i].minus(pad)
				} else {
					d.lanes[i] = d.lanes[i].plus(pad)
				}
			}
		})
	}
	if c.macPad == nil {
		return
	}
	c.macPad.ends(rs, func(row []byte, last bool) {
		if pad := parseElement(row); last {
			d.macPad = d.macPad.plus(pad)
		} else {
			d.macPad = d.macPad.minus(pad)
		}
	})
	if d.scopes == nil {
		d.scopes = map[macScope]bool{}
	}
	scope := macScope{*c.keys.of(d.schema.def.MAC.Scope), c.keys.moid}
	if !d.scopes[scope] {
		d.scopes[scope], d.macKey = true, c.macKey()
	}
}

// finish returns the numbers that lanes stand for.
func (d *decryption) finish() []wide {
	for i := range d.lanes {
		l := &d.schema.lanes[i]
		v := d.lanes[i].signed(l.width)
		if l.kind == laneCount { // never negative in a sum
			v.hi = 0
			if l.width == 4 {
				v.lo &= 1<<32 - 1
			}
		}
		d.lanes[i] = v
	}
	return d.lanes
}

// authenticate compares the MAC of the sums.
func (d *decryption) authenticate(out *Sums, p *Partial, e Expect) error {
	switch {
	case d.schema.def.MAC == nil && e.RequireMAC:
		return fmt.Errorf("schema %d has no MAC: %w", d.schema.ID(), ErrUnexpected)
	case d.schema.def.MAC == nil:
		return nil
	case len(d.scopes) > 1 && e.RequireMAC && d.schema.def.MAC.Scope == OfTenant:
		return fmt.Errorf("%d keys and quantities, whose MACs do not add up: ask for each "+
			"quantity by itself, and have a node add up by keys: %w", len(d.scopes), ErrUnexpected)
	case len(d.scopes) > 1 && e.RequireMAC:
		return fmt.Errorf("%d devices, quantities and keys, whose MACs do not add up: ask for "+
			"each device by itself, or give the MAC of a new schema the scope %q: %w",
			len(d.scopes), OfTenant, ErrUnexpected)
	case len(d.scopes) > 1:
		return nil
	}
	var want element
	if len(d.scopes) == 1 {
		want = d.macKey.of(d.lanes).plus(d.macPad)
	}
	if p.mac.reduce() != want {
		return ErrTampered
	}
	out.Authentic = true
	return nil
}

// denseRuns is how many numbers a run has at most, on average, for the whole keystream to be made:
// a call of the cipher for one row costs as much as the stream of some twenty rows.
const denseRuns = 20

// ends calls visit with the row before each run, and with the last row of each.
func (p *padBlock) ends(rs runs, visit func(row []byte, last bool)) {
	if uint64(len(rs)) <= rs.span()/denseRuns || len(rs) == 1 {
		for _, r := range rs {
			visit(p.row(uint64(r.from)-1), false)
			visit(p.row(uint64(r.to)), true)
		}
		return
	}
	const chunk = 1024
	rows := make([]byte, chunk*p.width)
	begin := uint64(rs[0].from) - 1
	stream := p.from(begin)
	stream.XORKeyStream(rows, rows)
	row := func(seq uint64) []byte {
		for ; seq >= begin+chunk; begin += chunk {
			clear(rows)
			stream.XORKeyStream(rows, rows)
		}
		return rows[(seq-begin)*uint64(p.width):][:p.width]
	}
	for _, r := range rs {
		visit(row(uint64(r.from)-1), false)
		visit(row(uint64(r.to)), true)
	}
}

// Count is how many readings were added.
func (s *Sums) Count() uint64 { return s.count }

// lane returns the sum in a lane of a field.
func (s *Sums) lane(field string, kind laneKind, what string) (wide, *Field, error) {
	i, err := s.schema.fieldOf(field)
	if err != nil {
		return wide{}, nil, err
	}
	for k := range s.schema.lanes {
		if l := &s.schema.lanes[k]; l.field == i && l.kind == kind {
			return s.lanes[k], &s.schema.def.Fields[i], nil
		}
	}
	return wide{}, nil, fmt.Errorf("field %q of schema %d has no %s", field, s.schema.ID(), what)
}

// Sum returns the sum of a field, exactly, as a decimal number.
func (s *Sums) Sum(field string) (string, error) {
	sum, f, err := s.lane(field, laneSum, "sum")
	if err != nil {
		return "", err
	}
	return formatUnits(sum.big(), f.Digits), nil
}

// rat is a sum as a number, of digits decimal digits.
func rat(v *big.Int, digits uint8) *big.Rat { return new(big.Rat).SetFrac(v, power10(digits)) }

func nearest(v *big.Rat) float64 {
	f, _ := v.Float64()
	return f
}

// Mean returns the mean of a field. It is not ok for no readings.
func (s *Sums) Mean(field string) (mean float64, ok bool, err error) {
	sum, f, err := s.lane(field, laneSum, "sum")
	if err != nil || s.count == 0 {
		return 0, false, err
	}
	total := rat(sum.big(), f.Digits)
	return nearest(total.Quo(total, new(big.Rat).SetInt(s.countBig()))), true, nil
}

func (s *Sums) countBig() *big.Int { return new(big.Int).SetUint64(s.count) }

// Variance returns the variance of a sample: the squares of the distances from the mean, added up
// and divided by one less than the count. It is computed exactly and rounded once. It is not ok for
// less than two readings.
func (s *Sums) Variance(field string) (variance float64, ok bool, err error) {
	sum, f, err := s.lane(field, laneSum, "sum")
	if err != nil {
		return 0, false, err
	}
	squares, _, err := s.lane(field, laneSquares, "sum of squares")
	if err != nil || s.count < 2 {
		return 0, false, err
	}
	n, total := s.countBig(), sum.big()
	above := new(big.Int).Mul(squares.big(), n)
	above.Sub(above, total.Mul(total, total))
	below := new(big.Int).Mul(n, new(big.Int).Sub(n, big.NewInt(1)))
	scale := power10(f.Digits)
	below.Mul(below, scale.Mul(scale, scale))
	return nearest(new(big.Rat).SetFrac(above, below)), true, nil
}

// Histogram returns how many readings were in each bucket of a field: below the first bound, from
// each bound to the next, and from the last one on.
func (s *Sums) Histogram(field string) ([]uint64, error) {
	i, err := s.schema.fieldOf(field)
	if err != nil {
		return nil, err
	}
	f := &s.schema.def.Fields[i]
	if len(f.Histogram) == 0 {
		return nil, fmt.Errorf("field %q of schema %d has no histogram", field, s.schema.ID())
	}
	out := make([]uint64, len(f.Histogram)+1)
	for k := range s.schema.lanes {
		if l := &s.schema.lanes[k]; l.field == i && l.kind == laneCount {
			out[l.bucket] = s.lanes[k].lo
		}
	}
	return out, nil
}

// Trend returns the straight line that fits the readings of a field best: its value at the origin
// of time, and by how much it rises in a unit of time. It is not ok where no line is the best one:
// for less than two times.
func (s *Sums) Trend(field string) (atOrigin, slope float64, ok bool, err error) {
	sum, f, err := s.lane(field, laneSum, "sum")
	if err != nil {
		return 0, 0, false, err
	}
	product, _, err := s.lane(field, laneTrend, "trend")
	if err != nil {
		return 0, 0, false, err
	}
	at := s.times[s.trendNumber(field)]
	n, st, stt := s.countBig(), at[0].big(), at[1].big()
	sm, smt := sum.big(), product.big()
	mul := func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
	below := new(big.Int).Sub(mul(n, stt), mul(st, st))
	if below.Sign() == 0 {
		return 0, 0, false, nil
	}
	rise := new(big.Int).Sub(mul(n, smt), mul(st, sm))
	base := new(big.Int).Sub(mul(sm, stt), mul(st, smt))
	below.Mul(below, power10(f.Digits))
	return nearest(new(big.Rat).SetFrac(base, below)), nearest(new(big.Rat).SetFrac(rise, below)),
		true, nil
}

// trendNumber is which of the lanes of trends is that of a field.
func (s *Sums) trendNumber(field string) (n int) {
	for i := range s.schema.lanes {
		l := &s.schema.lanes[i]
		if l.kind != laneTrend {
			continue
		}
		if s.schema.def.Fields[l.field].Name == field {
			return n
		}
		n++
	}
	return n
}
