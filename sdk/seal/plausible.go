package seal

import (
	"errors"
	"fmt"
	"math/big"
)

// ErrImplausible says that sums are beyond what the schema allows for so few readings: they were
// decrypted with other keys than the readings were sealed with, or a node changed them. A schema
// with a MAC notices every change; this is all that one without can.
var ErrImplausible = errors.New("is beyond what the schema allows: the readings were sealed " +
	"with other keys, or a node changed what it has")

// checkPlausible compares sums with the bounds of the schema.
//
// A correction by difference changes a lane by twice the bound of a reading at most.
func (s *Sums) checkPlausible(deltas uint64) error {
	n := s.countBig()
	atMost := new(big.Int).SetUint64(deltas)
	atMost.Add(n, atMost.Lsh(atMost, 1))
	sums := make([]*big.Int, len(s.schema.def.Fields)) // of fields that have one
	for i := range s.schema.lanes {
		l := &s.schema.lanes[i]
		f := &s.schema.def.Fields[l.field]
		v, bound := s.lanes[i].big(), new(big.Int).SetUint64(f.Max)
		wrong := func() bool { return false }
		switch l.kind {
		case laneSum:
			sums[l.field] = v
		case laneSquares: // a variance is not negative; the lane of the sum is before this one
			bound.Mul(bound, bound)
			wrong = func() bool {
				square := new(big.Int).Mul(sums[l.field], sums[l.field])
				return deltas == 0 && new(big.Int).Mul(v, n).Cmp(square) < 0
			}
		case laneTrend:
			bound.Mul(bound, new(big.Int).SetUint64(f.Trend.MaxUnits))
		case laneCount:
			bound.SetInt64(1)
		}
		if v.CmpAbs(bound.Mul(bound, atMost)) > 0 || wrong() {
			return fmt.Errorf("field %q: its sum %w", f.Name, ErrImplausible)
		}
	}
	return nil
}
