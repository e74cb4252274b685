package plugin

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
)

// Folds of a field of a result: what it is of several series, each with a result of its own.
const (
	FoldSum   = "sum"   // of numbers
	FoldFirst = "first" // of a time: the least
	FoldLast  = "last"  // of a time: the greatest
	// FoldSame is of an f64 behind a time: it is that of the result that the time is from. A NaN
	// says that a result has neither.
	FoldSame = "same"
)

// Folds reports whether results of several series are made one: all fields say how.
func (d *Doc) Folds() bool { return len(d.Result) > 0 && d.Result[0].Fold != "" }

// checkFolds checks that all fields say how they are folded, or none.
func (d *Doc) checkFolds() error {
	for i := range d.Result {
		f := &d.Result[i]
		var ok bool
		switch f.Fold {
		case "":
			ok = d.Result[0].Fold == ""
		case FoldSum:
			ok = f.Type == F64 || f.Type == I64 || f.Type == U64
		case FoldFirst, FoldLast:
			ok = f.Type == Time && i+1 < len(d.Result) && d.Result[i+1].Fold == FoldSame
		case FoldSame:
			ok = f.Type == F64 && i > 0 && d.Result[i-1].Type == Time
		}
		if !ok || f.Fold != "" && (f.Repeat || d.Result[0].Fold == "") {
			return fmt.Errorf("document: field %d (%q) of type %s has fold %q: numbers have sum, "+
				"a time first or last and the f64 behind it same, and all fields have one or none",
				i, f.Name, f.Type, f.Fold)
		}
	}
	return nil
}

// Fold makes the result of a series, more, part of another one, into. Results that fold are as long
// as their fields.
func (d *Doc) Fold(into, more []byte) error {
	if size := 8 * len(d.Result); len(into) != size || len(more) != size {
		return fmt.Errorf("results of %s have %d and %d bytes, want %d", d.Name, len(into),
			len(more), size)
	}
	for i := range d.Result {
		a, b := into[8*i:], more[8*i:]
		own, other := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)
		switch f := &d.Result[i]; f.Fold {
		case FoldSum:
			if f.Type == F64 {
				own = math.Float64bits(math.Float64frombits(own) + math.Float64frombits(other))
			} else {
				own += other
			}
			binary.LittleEndian.PutUint64(a, own)
		case FoldFirst, FoldLast:
			order := cmp.Compare(int64(other), int64(own))
			if f.Fold == FoldLast {
				order = -order
			}
			if has(b[8:]) && (!has(a[8:]) || order < 0) {
				copy(a[:16], b[:16])
			}
		}
	}
	return nil
}

// has reports whether the f64 behind a time says that there is one.
func has(b []byte) bool {
	return !math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(b)))
}
