package registry

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Selector chooses descriptions of devices. It is immutable.
type Selector struct{ expr Expr }

// Expr returns the expression of the selector, for an index; it must not be changed.
func (s *Selector) Expr() Expr { return s.expr }

// Match reports whether a description meets the selector.
func (s *Selector) Match(d *Description) bool { return s.expr.Match(d) }

// String returns the selector in one form for all that mean the same but for the order of their
// conditions and the spelling of their numbers; [ParseSelector] reads it.
func (s *Selector) String() string {
	var b strings.Builder
	s.expr.write(&b, levelOr)
	return b.String()
}

// Expr is an expression of a selector: an [And], [Or], [Not], [In], [Prefix], [Between], [Within]
// or [Near].
type Expr interface {
	// Match reports whether a description meets the expression.
	Match(d *Description) bool
	write(b *strings.Builder, around level)
}

// level says what is around an expression, and so whether it needs parentheses.
type level uint8

const (
	levelOr  level = iota // nothing
	levelAnd              // an and, or an or for the ands in it
	levelNot
)

// And is met by what meets all of two or more expressions.
type And []Expr

// Or is met by what meets one of two or more expressions.
type Or []Expr

// Not is met by what does not meet an expression.
type Not struct{ Expr Expr }

// In is met by descriptions of which a key has one of some values.
type In struct {
	Key    string
	Values []Literal
}

// Literal is a value as a selector has it.
type Literal struct {
	// Text is what it says. Unless it was quoted it means the number or the boolean that it spells,
	// too.
	Text   string
	Quoted bool
}

// Prefix is met by descriptions of which a key has a text that begins with one. A group is compared
// with a / behind it, so that oulu/ finds oulu and what is in it.
type Prefix struct{ Key, Text string }

// Between is met by descriptions of which a key has a number of an interval.
type Between struct {
	Key       string
	Low, High Limit
}

// Limit is one end of an interval.
type Limit struct {
	Number float64
	// Open leaves the number out. An infinite number is no limit.
	Open bool
}

// Within is met by places of a rectangle, its edges included. It crosses the antimeridian if West
// is greater than East. A pole has all longitudes.
type Within struct{ South, West, North, East float64 }

// Near is met by places that are not farther than a distance from one, on a sphere of the size of
// the earth.
type Near struct{ Lat, Lon, Meters float64 }

func (x And) Match(d *Description) bool {
	return !slices.ContainsFunc(x, func(e Expr) bool { return !e.Match(d) })
}

func (x Or) Match(d *Description) bool {
	return slices.ContainsFunc(x, func(e Expr) bool { return e.Match(d) })
}

func (x Not) Match(d *Description) bool { return !x.Expr.Match(d) }

func (x In) Match(d *Description) bool {
	v, ok := d.Value(x.Key)
	return ok && slices.ContainsFunc(x.Values, func(l Literal) bool { return l.Means(v) })
}

func (x Prefix) Match(d *Description) bool {
	v, ok := d.Value(x.Key)
	text := v.text
	if x.Key == KeyGroup {
		text += "/"
	}
	return ok && v.kind == KindText && strings.HasPrefix(text, x.Text)
}

func (x Between) Match(d *Description) bool {
	v, ok := d.Value(x.Key)
	return ok && v.kind == KindNumber && x.Has(v.number)
}

func (x Within) Match(d *Description) bool {
	return d.Place != nil && x.Has(d.Place.Lat, d.Place.Lon)
}

func (x Near) Match(d *Description) bool {
	return d.Place != nil && x.Has(d.Place.Lat, d.Place.Lon)
}

// Has reports whether a number is in the interval.
func (x Between) Has(n float64) bool {
	above := n > x.Low.Number || n == x.Low.Number && !x.Low.Open
	below := n < x.High.Number || n == x.High.Number && !x.High.Open
	return above && below
}

// Has reports whether a place is in the rectangle.
func (x Within) Has(lat, lon float64) bool {
	if lat < x.South || lat > x.North {
		return false
	}
	if lat == 90 || lat == -90 || x.hasLon(lon) {
		return true
	}
	return (lon == 180 || lon == -180) && x.hasLon(-lon) // one meridian
}

func (x Within) hasLon(lon float64) bool {
	if x.West <= x.East {
		return x.West <= lon && lon <= x.East
	}
	return lon >= x.West || lon <= x.East
}

// EarthRadiusMeters is the mean radius of the earth.
const EarthRadiusMeters = 6371008.8

// Has reports whether a place is in the circle.
func (x Near) Has(lat, lon float64) bool { return distance(x.Lat, x.Lon, lat, lon) <= x.Meters }

// distance returns the length of the great circle between two places in metres, by the haversine
// formula, which is exact for small ones.
func distance(lat1, lon1, lat2, lon2 float64) float64 {
	const radian = math.Pi / 180
	north := math.Sin((lat2 - lat1) * radian / 2)
	east := math.Sin((lon2 - lon1) * radian / 2)
	h := north*north + math.Cos(lat1*radian)*math.Cos(lat2*radian)*east*east
	return 2 * EarthRadiusMeters * math.Asin(math.Sqrt(min(h, 1)))
}

// Means reports whether the literal means a value.
func (l Literal) Means(v Value) bool {
	return slices.Contains(l.Meanings(), v)
}

// Meanings returns the values that the literal means: its text, and unless it was quoted the number
// or the boolean.
func (l Literal) Meanings() []Value {
	values := make([]Value, 1, 2)
	values[0] = Text(l.Text)
	if l.Quoted {
		return values
	}
	switch n, ok := parseNumber(l.Text); {
	case ok:
		return append(values, Number(n))
	case l.Text == "true" || l.Text == "false":
		return append(values, Bool(l.Text == "true"))
	}
	return values
}

// maxExact bounds the integers that a float64 keeps with their neighbours.
const maxExact = 1 << 53

// parseNumber reads a finite decimal number. Digits beyond 2^53 are one only if a number keeps them
// all, as a serial number of that length must not become another one.
func parseNumber(text string) (float64, bool) {
	digit := false
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' {
			digit = true
		} else if !strings.ContainsRune("+-.eE", rune(c)) {
			return 0, false
		}
	}
	if !digit {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if math.Abs(n) >= maxExact && err == nil && !strings.ContainsAny(text, "eE") {
		exact, ok := new(big.Rat).SetString(text)
		if !ok || exact.Cmp(new(big.Rat).SetFloat64(n)) != 0 {
			return 0, false
		}
	}
	return n + 0, err == nil
}

// Doubts names keys of attributes that are nearly other keys of descriptions, each with a question
// that says which: "grup; did you mean group?".
func (s *Selector) Doubts() (doubts []string) {
	eachKey(s.expr, func(key string) {
		const least = 3
		hint := excerpt.DidYouMean(key, []string{KeyName, KeyType, KeyGroup, KeyRetired})
		if !fixedKey(key) && len(key) >= least && hint != "" {
			doubts = append(doubts, key+hint)
		}
	})
	return doubts
}

// Attributes returns the keys of attributes that the selector has conditions on, each once.
func (s *Selector) Attributes() (keys []string) {
	eachKey(s.expr, func(key string) {
		if !fixedKey(key) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	})
	return keys
}

// AnyValue returns a selector of what has some value for the key of an attribute.
func AnyValue(key string) string {
	return fmt.Sprintf(`%s^="" or %s in (true, false) or %s<0 or %s>=0`, key, key, key, key)
}

func eachKey(x Expr, do func(key string)) {
	switch x := x.(type) {
	case And:
		for _, one := range x {
			eachKey(one, do)
		}
	case Or:
		for _, one := range x {
			eachKey(one, do)
		}
	case Not:
		eachKey(x.Expr, do)
	case In:
		do(x.Key)
	case Prefix:
		do(x.Key)
	case Between:
		do(x.Key)
	}
}
