package registry

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/expr"
)

// MaxSelectorBytes bounds the text of a selector.
const MaxSelectorBytes = expr.MaxBytes

// language is that of selectors. A key is name, type, group, alt, retired or that of an attribute.
var language = expr.Language{Example: "type=thermometer", Bare: true, Calls: []string{"within",
	"near"}, IsNumber: isNumber, Compare: compareNumbers}

// ParseSelector reads a selector, in the language of [expr.Language.Parse]. Keys are name, type,
// group, alt, retired and those of attributes; a key alone says that the boolean is true. Calls are
//
//	within(south,west,north,east)       the edges of a rectangle in degrees
//	near(latitude,longitude,distance)   a distance with its unit: 500m, 1.5km
//
// A condition on what a description does not have is not met, so that its negation is.
//
// The error is a [*expr.SyntaxError].
func ParseSelector(text string) (*Selector, error) {
	read, _, err := language.Parse(text)
	if err != nil {
		return nil, err
	}
	b := builder{text: text}
	x := b.build(read)
	if b.err != nil {
		return nil, b.err
	}
	return &Selector{x}, nil
}

func isNumber(word string) bool {
	_, ok := parseNumber(word)
	return ok
}

func compareNumbers(a, b string) int {
	x, _ := parseNumber(a)
	y, _ := parseNumber(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// builder makes the expression of a selector that was read.
type builder struct {
	text string
	err  *expr.SyntaxError
}

// fail notes the first error.
func (b *builder) fail(at int, reason string, args ...any) {
	if b.err == nil {
		b.err = &expr.SyntaxError{Text: b.text, Offset: at, Reason: fmt.Sprintf(reason, args...)}
	}
}

func (b *builder) build(x expr.Expr) Expr {
	switch x := x.(type) {
	case expr.All:
		var all And
		for _, one := range x {
			switch sub := b.build(one).(type) {
			case And:
				all = append(all, sub...)
			default:
				all = append(all, sub)
			}
		}
		return all
	case expr.Any:
		var all Or
		for _, one := range x {
			switch sub := b.build(one).(type) {
			case Or:
				all = append(all, sub...)
			default:
				all = append(all, sub)
			}
		}
		return all
	case expr.Not:
		return Not{b.build(x.Expr)}
	case *expr.Call:
		if x.Name == "near" {
			return b.near(x)
		}
		return b.within(x)
	}
	return b.test(x.(*expr.Test))
}

func (b *builder) test(t *expr.Test) Expr {
	switch t.Key {
	case "lat", "lon", "place":
		b.fail(t.At, "places are selected by within(south,west,north,east) and "+
			"near(latitude,longitude,distance)")
		return nil
	}
	if !fixedKey(t.Key) {
		if err := CheckKey(t.Key); err != nil {
			b.fail(t.At, "%v", err)
			return nil
		}
	}
	x := Between{t.Key, Limit{Number: math.Inf(-1)}, Limit{Number: math.Inf(1)}}
	switch t.Op {
	case expr.In:
		in := In{Key: t.Key}
		for _, l := range t.Values {
			if one := literal(l); !slices.Contains(in.Values, one) {
				in.Values = append(in.Values, one)
			}
		}
		return in
	case expr.Prefix:
		return Prefix{t.Key, t.Values[0].Text}
	case expr.Less, expr.LessOrEqual:
		x.High = Limit{number(t.Values[0]), t.Op == expr.Less}
	case expr.Greater, expr.GreaterOrEqual:
		x.Low = Limit{number(t.Values[0]), t.Op == expr.Greater}
	default:
		if low := t.Values[0]; low.Text != "" {
			x.Low.Number = number(low)
		}
		if high := t.Values[1]; high.Text != "" {
			x.High = Limit{number(high), !t.Closed}
		}
	}
	return x
}

// literal leaves out quotes that say nothing.
func literal(l expr.Literal) Literal {
	one := Literal{Text: l.Text}
	one.Quoted = l.Quoted && len(one.Meanings()) > 1
	return one
}

// number returns the number of a literal that is one.
func number(l expr.Literal) float64 {
	n, _ := parseNumber(l.Text)
	return n
}

// args checks that a call has the arguments that its form names.
func (b *builder) args(c *expr.Call, form string) bool {
	want := strings.Count(form, ",") + 1
	switch {
	case len(c.Args) < want:
		b.fail(c.End, "want %s", form)
	case len(c.Args) > want:
		b.fail(c.Args[want].At, "want %s, and no more", form)
	}
	return b.err == nil
}

// degrees reads a number of degrees between limits.
func (b *builder) degrees(l expr.Literal, what string, most float64) float64 {
	n, ok := parseNumber(l.Text)
	switch {
	case l.Quoted || !ok:
		b.fail(l.At, "want the %s in degrees, e.g. 65.01", what)
	case math.Abs(n) > most:
		b.fail(l.At, "the %s %v is not of -%v to %v degrees", what, n, most, most)
	}
	return n
}

func (b *builder) within(c *expr.Call) Expr {
	if !b.args(c, "within(south,west,north,east)") {
		return nil
	}
	x := Within{South: b.degrees(c.Args[0], "south edge", 90),
		West:  b.degrees(c.Args[1], "west edge", 180),
		North: b.degrees(c.Args[2], "north edge", 90),
		East:  b.degrees(c.Args[3], "east edge", 180)}
	if x.South > x.North {
		b.fail(c.Args[0].At, "the south edge %v is north of the north edge %v", x.South, x.North)
	}
	return x
}

// maxMeters is half the way around the earth.
const maxMeters = math.Pi * EarthRadiusMeters

func (b *builder) near(c *expr.Call) Expr {
	if !b.args(c, "near(latitude,longitude,distance)") {
		return nil
	}
	x := Near{Lat: b.degrees(c.Args[0], "latitude", 90),
		Lon: b.degrees(c.Args[1], "longitude", 180)}
	word := c.Args[2]
	digits, kilo := strings.CutSuffix(word.Text, "km")
	unit := 1000.0
	if !kilo {
		digits, unit = strings.TrimSuffix(word.Text, "m"), 1
	}
	n, ok := parseNumber(digits)
	if x.Meters = n * unit; !ok || digits == word.Text || word.Quoted {
		b.fail(word.At, "want a distance with its unit, e.g. 500m or 1.5km")
	} else if !(x.Meters > 0 && x.Meters <= maxMeters) {
		b.fail(word.At, "the distance is not above 0 and at most 20015km")
	}
	return x
}
