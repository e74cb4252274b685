package registry

import (
	"math"
	"strings"
	"unicode"
)

// endsWord reports whether a character is not part of a word.
func endsWord(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`,()"=!<>^`, r) }

// word reads a word, "" if none comes next. A = behind two dots is part of it.
func (p *parser) word() string {
	p.skipSpace()
	start := p.at
	for p.at < len(p.text) {
		n := strings.IndexFunc(p.text[p.at:], endsWord)
		if n < 0 {
			n = len(p.text) - p.at
		}
		p.at += n
		word := p.text[start:p.at]
		if !strings.HasPrefix(p.text[p.at:], "=") || !strings.HasSuffix(word, "..") {
			break
		}
		p.at++
	}
	return p.text[start:p.at]
}

// literal reads a value: a word or a quoted text.
func (p *parser) literal(where string) Literal {
	p.skipSpace()
	start := p.at
	if !p.take(`"`) {
		word := p.word()
		if word == "" {
			p.fail(start, "want a value %s", where)
		}
		return Literal{Text: word}
	}
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			l := Literal{Text: b.String()}
			l.Quoted = len(l.Meanings()) > 1 // else the quotes say nothing
			return l
		case c == '\\':
			if p.at == len(p.text) || p.text[p.at] != '"' && p.text[p.at] != '\\' {
				p.fail(p.at-1, `in quotes a \ is before a " or a \ only`)
				return Literal{}
			}
			c = p.text[p.at]
			p.at++
		}
		b.WriteByte(c)
	}
	p.fail(start, "want a closing quote")
	return Literal{}
}

// number reads a number.
func (p *parser) number(want string) float64 {
	p.skipSpace()
	start := p.at
	n, ok := parseNumber(p.word())
	if !ok {
		p.fail(start, "want %s", want)
	}
	return n
}

// degrees reads a number of degrees between limits.
func (p *parser) degrees(what string, most float64) float64 {
	p.skipSpace()
	start := p.at
	n := p.number("the " + what + " in degrees, e.g. 65.01")
	if math.Abs(n) > most {
		p.fail(start, "the %s %v is not of -%v to %v degrees", what, n, most, most)
	}
	return n
}

func (p *parser) within() Expr {
	const form = "of within(south,west,north,east)"
	var x Within
	start := p.at
	p.expect("(", form)
	x.South = p.degrees("south edge", 90)
	p.expect(",", form)
	x.West = p.degrees("west edge", 180)
	p.expect(",", form)
	x.North = p.degrees("north edge", 90)
	p.expect(",", form)
	x.East = p.degrees("east edge", 180)
	p.expect(")", form)
	if x.South > x.North {
		p.fail(start, "the south edge %v is north of the north edge %v", x.South, x.North)
	}
	return x
}

// maxMeters is half the way around the earth.
const maxMeters = math.Pi * EarthRadiusMeters

func (p *parser) near() Expr {
	const form = "of near(latitude,longitude,distance)"
	var x Near
	p.expect("(", form)
	x.Lat = p.degrees("latitude", 90)
	p.expect(",", form)
	x.Lon = p.degrees("longitude", 180)
	p.expect(",", form)
	p.skipSpace()
	start := p.at
	word := p.word()
	number, kilo := strings.CutSuffix(word, "km")
	unit := 1000.0
	if !kilo {
		number, unit = strings.TrimSuffix(word, "m"), 1
	}
	n, ok := parseNumber(number)
	if x.Meters = n * unit; !ok || number == word {
		p.fail(start, "want a distance with its unit, e.g. 500m or 1.5km")
	} else if !(x.Meters > 0 && x.Meters <= maxMeters) {
		p.fail(start, "the distance is not between 0 and 20015km")
	}
	p.expect(")", form)
	return x
}
