package registry

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Limits of a selector. They bound the time and the memory that one takes.
const (
	MaxSelectorBytes = 16 << 10
	maxConditions    = 1000 // values of lists included
	maxDepth         = 32
)

// SyntaxError is what is wrong with the text of a selector, and where.
type SyntaxError struct {
	Text   string // of the selector
	Offset int    // in bytes
	Reason string
}

// Error says at which character, counted from 1.
func (e *SyntaxError) Error() string {
	at := utf8.RuneCountInString(e.Text[:e.Offset]) + 1
	rest := e.Text[e.Offset:]
	if rest == "" {
		return fmt.Sprintf("selector, at its end: %s", e.Reason)
	}
	return fmt.Sprintf("selector, character %d (%q): %s", at, excerpt.Of(rest, 20), e.Reason)
}

// ParseSelector reads a selector:
//
//	selector   all { "or" all }
//	all        one { ( "," | "and" ) one }
//	one        ( "!" | "not" ) one | "(" selector ")" | condition
//	condition  key                                  the boolean is true
//	           key ( "=" | "!=" ) value             a text, a number or a boolean
//	           key ( "=" | "!=" ) a..b              a number from a on below b; a..=b: b included,
//	                                                a.. and ..b: without the other end
//	           key ( "<" | "<=" | ">" | ">=" ) number
//	           key "^=" value                       a text that begins with the value
//	           key "in" "(" value { "," value } ")"
//	           "within" "(" south "," west "," north "," east ")"
//	           "near" "(" latitude "," longitude "," distance ")"    e.g. 500m, 1.5km
//
// Keys are name, type, group, alt, retired and those of attributes. A value is a word, or a text in
// double quotes, where \ is before " and \ itself. A condition on what a description does not have
// is not met, so that its negation is. Where "," or "and" meets "or" it binds more closely.
//
// The error is a [*SyntaxError].
func ParseSelector(text string) (*Selector, error) {
	p := &parser{text: text}
	if len(text) > MaxSelectorBytes {
		return nil, &SyntaxError{text, 0, fmt.Sprintf("it has %d bytes, at most %d", len(text),
			MaxSelectorBytes)}
	}
	for i, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !strings.ContainsRune("\t\n\r", r) {
			return nil, &SyntaxError{text, i, "a character that is not printable"}
		}
	}
	expr := p.or()
	if p.skipSpace(); p.err == nil && p.at < len(text) {
		if text[p.at] == ')' {
			p.fail(p.at, "a parenthesis that none opened")
		} else {
			p.fail(p.at, "conditions follow each other; write a comma, and or or between them")
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return &Selector{expr}, nil
}

// parser reads a selector by recursive descent. After an error it is at the end of the text.
type parser struct {
	text  string
	at    int // in bytes
	depth int
	count int // of conditions and values
	err   *SyntaxError
}

// fail notes the first error and ends the parse.
func (p *parser) fail(at int, reason string, args ...any) {
	if p.err == nil {
		p.err = &SyntaxError{p.text, at, fmt.Sprintf(reason, args...)}
	}
	p.at = len(p.text)
}

func (p *parser) skipSpace() {
	rest := strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace)
	p.at = len(p.text) - len(rest)
}

// take reads a sign if it comes next.
func (p *parser) take(sign string) bool {
	p.skipSpace()
	if !strings.HasPrefix(p.text[p.at:], sign) {
		return false
	}
	p.at += len(sign)
	return true
}

// takeWord reads a word of the language if it comes next.
func (p *parser) takeWord(word string) bool {
	start := p.at
	if p.take(word) && (p.at == len(p.text) || endsWord(rune(p.text[p.at]))) {
		return true
	}
	p.at = start
	return false
}

// expect reads a sign that must come next.
func (p *parser) expect(sign, what string) {
	if p.err == nil && !p.take(sign) {
		p.fail(p.at, "want %s %s", sign, what)
	}
}

func (p *parser) or() Expr {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.at, "more than %d levels of parentheses and negations", maxDepth)
		return nil
	}
	var all Or
	for {
		switch x := p.and().(type) {
		case Or:
			all = append(all, x...)
		default:
			all = append(all, x)
		}
		if !p.takeWord("or") {
			break
		}
	}
	p.depth--
	if len(all) == 1 {
		return all[0]
	}
	return all
}

func (p *parser) and() Expr {
	var all And
	for {
		switch x := p.one().(type) {
		case And:
			all = append(all, x...)
		default:
			all = append(all, x)
		}
		if !p.take(",") && !p.takeWord("and") {
			break
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

func (p *parser) one() Expr {
	if p.take("(") {
		start := p.at - 1
		x := p.or()
		if p.err == nil && !p.take(")") {
			p.fail(p.at, "want ) for the parenthesis of character %d",
				utf8.RuneCountInString(p.text[:start])+1)
		}
		return x
	}
	if p.take("!") || p.takeWord("not") {
		if p.depth++; p.depth > maxDepth {
			p.fail(p.at, "more than %d levels of parentheses and negations", maxDepth)
			return nil
		}
		x := Not{p.one()}
		p.depth--
		return x
	}
	return p.condition()
}

func (p *parser) condition() Expr {
	p.skipSpace()
	start := p.at
	word := p.word()
	if p.countOne(start); p.err != nil {
		return nil
	}
	switch {
	case word == "":
		p.fail(start, "want a condition, e.g. type=thermometer")
		return nil
	case word == "within":
		return p.within()
	case word == "near":
		return p.near()
	case !fixedKey(word):
		if err := CheckKey(word); err != nil {
			p.fail(start, "%v", err)
			return nil
		}
	}
	return p.comparison(word)
}

// comparison reads what follows a key.
func (p *parser) comparison(key string) Expr {
	const low, high = true, false
	switch {
	case p.take("!="):
		return Not{p.equal(key)}
	case p.take("^="):
		l := p.literal("behind " + key + "^=, e.g. " + key + "^=oulu/")
		return Prefix{key, l.Text}
	case p.take("<="):
		return p.limit(key, high, false)
	case p.take("<"):
		return p.limit(key, high, true)
	case p.take(">="):
		return p.limit(key, low, false)
	case p.take(">"):
		return p.limit(key, low, true)
	case p.take("="):
		return p.equal(key)
	case p.takeWord("in"):
		return p.in(key)
	}
	return In{key, []Literal{{Text: "true"}}}
}

func (p *parser) limit(key string, isLow, open bool) Expr {
	n := p.number("a number behind the sign, e.g. " + key + ">=2")
	x := Between{key, Limit{Number: math.Inf(-1)}, Limit{Number: math.Inf(1)}}
	if isLow {
		x.Low = Limit{n, open}
	} else {
		x.High = Limit{n, open}
	}
	return x
}

// equal reads a value or a range.
func (p *parser) equal(key string) Expr {
	p.skipSpace()
	start := p.at
	l := p.literal("behind " + key + "=")
	if p.err != nil {
		return nil
	}
	if p.text[start] == '"' || !strings.Contains(l.Text, "..") {
		return In{key, []Literal{l}}
	}
	left, right, _ := strings.Cut(l.Text, "..")
	right, included := strings.CutPrefix(right, "=")
	x := Between{key, Limit{Number: math.Inf(-1)}, Limit{Number: math.Inf(1)}}
	ok := left != "" || right != ""
	if left != "" {
		x.Low.Number, ok = parseNumber(left)
	}
	if right != "" && ok {
		x.High.Number, ok = parseNumber(right)
		x.High.Open = !included
	}
	switch {
	case !ok || included && right == "":
		p.fail(start, "%q is no range of numbers, e.g. 2..4; quote it if it is a text",
			excerpt.Of(l.Text, 40))
	case x.Low.Number > x.High.Number:
		p.fail(start, "%s ends before it begins", l.Text)
	case x.Low.Number == x.High.Number && x.High.Open:
		p.fail(start, "%s holds nothing; %s..=%s includes its end", l.Text, left, right)
	}
	return x
}

func (p *parser) in(key string) Expr {
	x := In{Key: key}
	p.expect("(", "and values behind in, e.g. "+key+" in (acme, beta)")
	for p.err == nil {
		p.skipSpace()
		start := p.at
		l := p.literal("of a list")
		if p.err == nil && p.text[start] != '"' && strings.Contains(l.Text, "..") {
			p.fail(start, "a list has values, and no ranges; join conditions by or")
		}
		if !slices.Contains(x.Values, l) {
			x.Values = append(x.Values, l)
		}
		p.countOne(start)
		if !p.take(",") {
			p.expect(")", "or a comma behind the value of a list")
			break
		}
	}
	return x
}

func (p *parser) countOne(start int) {
	if p.count++; p.count > maxConditions {
		p.fail(start, "more than %d conditions and values", maxConditions)
	}
}
