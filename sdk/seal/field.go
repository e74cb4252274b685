package seal

import (
	"fmt"
	"math"
	"math/big"
	"slices"
)

// Kind says what the values of a field are.
type Kind string

// Kinds of fields.
const (
	Number Kind = "number" // a fixed-point number: an int64 of units of 10^-Digits
	Text   Kind = "text"   // UTF-8
)

// Scope says which records have tags that a node can compare with each other.
type Scope string

// Scopes. With a tenant's scope, who has the key of one device can make tags for all.
const (
	OfDevice Scope = ""       // those of one device
	OfTenant Scope = "tenant" // those of all devices
)

// Field is one value of a payload.
type Field struct {
	ID     uint16 `json:"id"` // never given to another field, as keys follow from it
	Name   string `json:"name"`
	Kind   Kind   `json:"kind"`
	Digits uint8  `json:"digits,omitempty"` // after the decimal point that a number keeps
	// Max bounds numbers: no value is above Max units nor below -Max. By it the schema proves that
	// no sum overflows.
	Max uint64 `json:"max,omitempty"`

	Sum        bool    `json:"sum,omitempty"`         // for sums and means
	SumSquares bool    `json:"sum_squares,omitempty"` // with Sum: for variances
	Trend      *Trend  `json:"trend,omitempty"`       // with Sum: for a slope over cap
	Histogram  []int64 `json:"histogram,omitempty"`   // ascending bounds of buckets, in units
	Order      *Order  `json:"order,omitempty"`       // for ranges
	Equal      *Equal  `json:"equal,omitempty"`       // for equality and groups
}

// Trend asks for a lane of value times time.
type Trend struct {
	OriginNs int64 `json:"origin_ns"` // the time 0
	UnitNs   int64 `json:"unit_ns"`   // what time is counted in
	// MaxUnits bounds the time of a record, before and after the origin.
	MaxUnits uint64 `json:"max_units"`
}

// Order asks for order tags. They tell a node the order of all values in scope: of a field whose
// distribution is known that is close to the values themselves. With a width it is the order of
// buckets, and nothing of what is inside one.
type Order struct {
	Low     int64  `json:"low,omitempty"`     // where bucket 0 begins, in units
	Width   uint64 `json:"width,omitempty"`   // of a bucket in units; 0: values themselves
	Buckets uint32 `json:"buckets,omitempty"` // values outside of all belong to the first and last
	Scope   Scope  `json:"scope,omitempty"`
	// AcknowledgeLeakage must be true: that a node learns the order is accepted.
	AcknowledgeLeakage bool `json:"acknowledge_leakage"`
}

// Equal asks for equality tags. They tell a node which values in scope are equal, and so how often
// each is there.
type Equal struct {
	Scope Scope `json:"scope,omitempty"`
	// PeriodNs > 0 makes tags of different periods of cap different, so that frequencies are known
	// of each period only. A query over n periods has n tags.
	PeriodNs int64 `json:"period_ns,omitempty"`
}

// Value is the value of a field: a number of units or a text.
type Value struct {
	Number int64
	Text   string
}

const (
	maxFields     = 64
	maxBuckets    = 1024 // of a histogram
	maxNameBytes  = 64
	maxTextBytes  = 1 << 16
	maxPrefix     = 1<<16 - 1
	maxFieldDigit = 18
)

// check says what is wrong with a field by itself.
func (f *Field) check() error {
	switch {
	case f.Name == "" || len(f.Name) > maxNameBytes:
		return fmt.Errorf("a name has 1 to %d bytes", maxNameBytes)
	case f.Kind != Number && f.Kind != Text:
		return fmt.Errorf("kind %q: there are %q and %q", f.Kind, Number, Text)
	case f.Kind == Text:
		return f.checkText()
	case f.Digits > maxFieldDigit:
		return fmt.Errorf("digits: %d, at most %d", f.Digits, maxFieldDigit)
	case f.Max == 0 || f.Max > math.MaxInt64:
		return fmt.Errorf("max: say the greatest value in units of 10^-%d, 1 to 2^63-1", f.Digits)
	case !f.Sum && (f.SumSquares || f.Trend != nil):
		return fmt.Errorf("sum_squares and trend need sum")
	}
	if t := f.Trend; t != nil && (t.UnitNs <= 0 || t.MaxUnits == 0) {
		return fmt.Errorf("trend: unit_ns and max_units are above 0")
	}
	if err := f.checkHistogram(); err != nil {
		return err
	}
	if f.Order != nil {
		if err := f.Order.check(); err != nil {
			return fmt.Errorf("order: %w", err)
		}
	}
	return f.checkEqual()
}

func (f *Field) checkText() error {
	if f.Digits != 0 || f.Max != 0 || f.Sum || f.SumSquares || f.Trend != nil ||
		f.Histogram != nil || f.Order != nil {
		return fmt.Errorf("a text has no digits, max, sum, sum_squares, trend, histogram or order")
	}
	return f.checkEqual()
}

func (f *Field) checkHistogram() error {
	if len(f.Histogram) >= maxBuckets {
		return fmt.Errorf("histogram: %d bounds, at most %d", len(f.Histogram), maxBuckets-1)
	}
	for i := 1; i < len(f.Histogram); i++ {
		if f.Histogram[i-1] >= f.Histogram[i] {
			return fmt.Errorf("histogram: bound %d follows %d; bounds ascend", f.Histogram[i],
				f.Histogram[i-1])
		}
	}
	return nil
}

func (f *Field) checkEqual() error {
	if e := f.Equal; e != nil {
		if err := e.Scope.check(); err != nil {
			return fmt.Errorf("equal: %w", err)
		}
		if e.PeriodNs < 0 {
			return fmt.Errorf("equal: period_ns is %d; 0 means no periods", e.PeriodNs)
		}
	}
	return nil
}

func (s Scope) check() error {
	if s != OfDevice && s != OfTenant {
		return fmt.Errorf("scope %q: leave it out for a device, or say %q", s, OfTenant)
	}
	return nil
}

func (o *Order) check() error {
	switch {
	case !o.AcknowledgeLeakage:
		return fmt.Errorf("tells a node the order of all values, which for a field of known " +
			"distribution is close to the values: set acknowledge_leakage, or leave order out")
	case (o.Width == 0) != (o.Buckets == 0):
		return fmt.Errorf("width and buckets go together")
	case o.Width == 0 && o.Low != 0:
		return fmt.Errorf("low is where buckets begin: give width and buckets")
	case o.Buckets == 1:
		return fmt.Errorf("one bucket orders nothing")
	}
	return o.Scope.check()
}

// bucket is the number of the bucket of a value.
func (o *Order) bucket(v int64) uint32 {
	if v < o.Low {
		return 0
	}
	return uint32(min((uint64(v)-uint64(o.Low))/o.Width, uint64(o.Buckets)-1))
}

// histogramBucket is the number of the bucket of a value: how many bounds are not above it.
func (f *Field) histogramBucket(v int64) int {
	i, found := slices.BinarySearch(f.Histogram, v)
	if found {
		i++
	}
	return i
}

// needs returns how many bytes a lane needs that adds numbers of at most max, so often: 8 or 16. 0
// says that 16 are not enough.
func needs(records uint64, max ...uint64) int {
	sum := new(big.Int).SetUint64(records)
	for _, m := range max {
		sum.Mul(sum, new(big.Int).SetUint64(m))
	}
	switch n := sum.BitLen(); {
	case n <= 63:
		return 8
	case n <= 127:
		return 16
	}
	return 0
}
