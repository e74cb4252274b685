package registry

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// LocationQuantity is the name of the quantity whose readings are locations unless another is
// chosen.
const LocationQuantity = "location"

// MaxMovingPlaces is how many conditions about places a selector of devices that move may have:
// each device has a bit for each set of them.
const MaxMovingPlaces = 6

// Moving says that places in a selector are where a device was when a reading was captured, by its
// readings of a quantity: the last one that was captured until then.
type Moving struct {
	Quantity string // its name or its moid
	// MaxAgeNs is how old a location may be; 0: any age. After that the device has no place until
	// its next one.
	MaxAgeNs int64
	// Layout is where locations are in payloads, nil in a question that was not bound to the
	// declarations of quantities.
	Layout *LocationLayout
}

// LocationLayout is where locations are in payloads of a quantity.
type LocationLayout struct {
	MOID     int32          `json:"moid"`
	MaxAgeNs int64          `json:"max_age_ns"`
	Lat      LocationField  `json:"lat"`
	Lon      LocationField  `json:"lon"`
	Alt      *LocationField `json:"alt,omitempty"`
}

// LocationField is a number in a payload: f64, f32, i64, i32 or u32, little-endian.
type LocationField struct {
	Offset uint32 `json:"offset"`
	Type   string `json:"type"`
}

// maxMovingBytes bounds the text of a Moving.
const maxMovingBytes = 1024

// ParseMoving reads what [Moving.String] writes: the quantity, and behind a comma the greatest age
// of a location, e.g. location,1h; or, if it begins with {, a layout as JSON.
func ParseMoving(text string) (Moving, error) {
	if len(text) > maxMovingBytes {
		return Moving{}, fmt.Errorf("moving has %d bytes, at most %d", len(text), maxMovingBytes)
	}
	if strings.HasPrefix(text, "{") {
		l := &LocationLayout{}
		if err := json.Unmarshal([]byte(text), l); err != nil {
			return Moving{}, fmt.Errorf("moving: %w", err)
		}
		return Moving{Quantity: strconv.Itoa(int(l.MOID)), MaxAgeNs: l.MaxAgeNs, Layout: l},
			l.check()
	}
	quantity, age, has := strings.Cut(text, ",")
	m := Moving{Quantity: quantity}
	if err := checkName("quantity", quantity); err != nil || quantity == "" {
		return m, errors.Join(err, errors.New("moving names no quantity; write e.g. location,1h"))
	}
	if has {
		span, err := time.ParseDuration(age)
		if err != nil || span <= 0 {
			return m, fmt.Errorf("moving: the age %q is not a time span such as 90s or 1h",
				excerpt.Of(age, 40))
		}
		m.MaxAgeNs = int64(span)
	}
	return m, nil
}

// String writes it so that [ParseMoving] reads the same.
func (m *Moving) String() string {
	switch {
	case m.Layout != nil:
		text, err := json.Marshal(m.Layout)
		if err != nil {
			panic("BUG: a layout has no JSON: " + err.Error())
		}
		return string(text)
	case m.MaxAgeNs > 0:
		return m.Quantity + "," + time.Duration(m.MaxAgeNs).String()
	}
	return m.Quantity
}

func (l *LocationLayout) check() error {
	if l.MaxAgeNs < 0 {
		return fmt.Errorf("moving: the age of %d ns is negative", l.MaxAgeNs)
	}
	fields := []LocationField{l.Lat, l.Lon}
	if l.Alt != nil {
		fields = append(fields, *l.Alt)
	}
	for _, f := range fields {
		if f.size() == 0 {
			return fmt.Errorf("moving: the type %q of a field is not one of a number",
				excerpt.Of(f.Type, 40))
		}
	}
	return nil
}

func (f LocationField) size() uint64 {
	switch f.Type {
	case "f64", "i64":
		return 8
	case "f32", "i32", "u32":
		return 4
	}
	return 0
}

// read returns the number of a payload.
func (f LocationField) read(payload []byte) (v float64, ok bool) {
	if uint64(f.Offset)+f.size() > uint64(len(payload)) {
		return 0, false
	}
	b := payload[f.Offset:]
	switch f.Type {
	case "f64":
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	case "i64":
		return float64(int64(binary.LittleEndian.Uint64(b))), true
	case "f32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
	case "i32":
		return float64(int32(binary.LittleEndian.Uint32(b))), true
	}
	return float64(binary.LittleEndian.Uint32(b)), true
}

// Place returns the location that a payload has. One that ends early, or is no place on the earth,
// e.g. NaN of a receiver that has lost its satellites, has none. An altitude that is not a number
// is not known.
func (l *LocationLayout) Place(payload []byte) (p Place, ok bool) {
	lat, hasLat := l.Lat.read(payload)
	lon, hasLon := l.Lon.read(payload)
	if p = (Place{Lat: lat, Lon: lon}); !hasLat || !hasLon || p.check() != nil {
		return Place{}, false
	}
	if l.Alt != nil {
		alt, has := l.Alt.read(payload)
		if has && !math.IsNaN(alt) && !math.IsInf(alt, 0) {
			p.Alt, p.HasAlt = alt, true
		}
	}
	return p, true
}

// Places returns the conditions of the selector that are about places, each once.
func (s *Selector) Places() (all []Expr) {
	var add func(x Expr)
	add = func(x Expr) {
		switch x := x.(type) {
		case And:
			for _, one := range x {
				add(one)
			}
		case Or:
			for _, one := range x {
				add(one)
			}
		case Not:
			add(x.Expr)
		default:
			if isPlace(x) && indexOf(all, x) < 0 {
				all = append(all, x)
			}
		}
	}
	add(s.expr)
	return all
}

func isPlace(x Expr) bool {
	switch x := x.(type) {
	case Within, Near:
		return true
	case In:
		return x.Key == KeyAlt
	case Between:
		return x.Key == KeyAlt
	case Prefix:
		return x.Key == KeyAlt
	}
	return false
}

// indexOf returns which of some conditions is the same as one, -1 if none is.
func indexOf(all []Expr, x Expr) int {
	text := (&Selector{x}).String()
	for i := range all {
		if (&Selector{all[i]}).String() == text {
			return i
		}
	}
	return -1
}

// Settled is a selector whose conditions about places are known to be met or not: it may be met by
// all devices or by none.
type Settled struct {
	*Selector      // nil if All or None
	All, None bool // whatever devices are described as
}

// Settle returns the selector with its conditions about places settled: bit i of met says whether
// [Selector.Places][i] is.
func (s *Selector) Settle(places []Expr, met uint64) Settled {
	x, known, is := settle(s.expr, places, met)
	return Settled{&Selector{x}, known && is, known && !is}
}

// settle returns what is left of an expression, or what it is known to be.
func settle(x Expr, places []Expr, met uint64) (left Expr, known, is bool) {
	switch x := x.(type) {
	case And:
		return settleAll(x, places, met, false)
	case Or:
		return settleAll(x, places, met, true)
	case Not:
		left, known, is = settle(x.Expr, places, met)
		return Not{left}, known, !is
	}
	if isPlace(x) {
		return x, true, met>>indexOf(places, x)&1 == 1
	}
	return x, false, false
}

// settleAll is settle for the members of an and, or of an or, which end it where one is known to be
// enough.
func settleAll(list []Expr, places []Expr, met uint64, enough bool) (left Expr, known, is bool) {
	var rest []Expr
	for _, one := range list {
		one, known, is := settle(one, places, met)
		switch {
		case !known:
			rest = append(rest, one)
		case is == enough:
			return one, true, enough
		}
	}
	switch {
	case len(rest) == 0:
		return nil, true, !enough
	case len(rest) == 1:
		return rest[0], false, false
	case enough:
		return Or(rest), false, false
	}
	return And(rest), false, false
}
