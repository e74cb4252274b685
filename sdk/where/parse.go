package where

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Parse reads a condition:
//
//	where  all { "or" all }
//	all    one { ( "," | "and" ) one }
//	one    ( "!" | "not" ) one | "(" where ")" | test
//	test   field ( "=" | "==" | "!=" ) value
//	       field ( "=" | "==" | "!=" ) a..b     a number from a on below b; a..=b: b included,
//	                                            a.. and ..b: without the other end
//	       field ( "<" | "<=" | ">" | ">=" ) number
//	       field "^=" value                     a text that begins with the value
//	       field "in" "(" value { "," value } ")"
//
// A field is a word or a name in double quotes; the one of a payload that is not a struct is called
// value. A value is a word, or a text in double quotes, where \ is before " and \ itself. A word
// may be a number, also inf and -inf. Where "," or "and" meets "or" it binds more closely.
//
// The error is a [*SyntaxError].
func Parse(text string) (Expr, error) {
	expr, _, err := parse(text)
	return expr, err
}

// parse is Parse, and counts the tests and values.
func parse(text string) (expr Expr, tests int, err error) {
	p := &parser{text: text}
	if len(text) > MaxBytes {
		return nil, 0, &SyntaxError{text, 0, fmt.Sprintf("it has %d bytes, at most %d", len(text),
			MaxBytes)}
	}
	for i, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !strings.ContainsRune("\t\n\r", r) {
			return nil, 0, &SyntaxError{text, i, "a character that is not printable"}
		}
	}
	expr = p.or()
	if p.skipSpace(); p.err == nil && p.at < len(text) {
		if text[p.at] == ')' {
			p.fail(p.at, "a parenthesis that none opened")
		} else {
			p.fail(p.at, "conditions follow each other; write a comma, and or or between them")
		}
	}
	if p.err != nil {
		return nil, 0, p.err
	}
	return expr, p.count, nil
}

// parser reads a condition by recursive descent. After an error it is at the end of the text.
type parser struct {
	text  string
	at    int // in bytes
	depth int
	count int // of tests and values
	err   *SyntaxError
}

// fail notes the first error and ends the parse.
func (p *parser) fail(at int, reason string, args ...any) {
	if p.err == nil {
		p.err = &SyntaxError{p.text, at, fmt.Sprintf(reason, args...)}
	}
	p.at = len(p.text)
}

func (p *parser) or() Expr {
	if !p.enter() {
		return nil
	}
	all := Any{p.and()}
	for p.takeWord("or") {
		all = append(all, p.and())
	}
	p.depth--
	if len(all) == 1 {
		return all[0]
	}
	return all
}

func (p *parser) and() Expr {
	all := All{p.one()}
	for p.take(",") || p.takeWord("and") {
		all = append(all, p.one())
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// enter begins a level, which depth-- ends.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.at, "more than %d levels of parentheses and negations", maxDepth)
		return false
	}
	return true
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
		if !p.enter() {
			return nil
		}
		x := Not{p.one()}
		p.depth--
		return x
	}
	return p.test()
}

func (p *parser) test() Expr {
	p.skipSpace()
	start := p.at
	field := p.literal("").Text
	if p.countOne(start); p.err != nil {
		return nil
	}
	if field == "" {
		p.fail(start, "want a condition, e.g. value > 20")
		return nil
	}
	t := &Test{Field: field, At: start}
	switch {
	case p.take("!="):
		return Not{p.equal(t)}
	case p.take("^="):
		t.Op = Prefix
		t.Values = []Literal{p.literal(`behind ^=, e.g. ` + field + ` ^= "err"`)}
		return t
	case p.take("<="):
		return p.number(t, LessOrEqual)
	case p.take("<"):
		return p.number(t, Less)
	case p.take(">="):
		return p.number(t, GreaterOrEqual)
	case p.take(">"):
		return p.number(t, Greater)
	case p.take("=="), p.take("="):
		return p.equal(t)
	case p.takeWord("in"):
		return p.in(t)
	}
	p.fail(p.at, "want =, !=, <, <=, >, >=, ^= or in behind %s, e.g. %s > 20",
		excerpt.Of(field, 40), excerpt.Of(field, 40))
	return nil
}

func (p *parser) number(t *Test, op Op) Expr {
	t.Op = op
	l := p.literal("a number behind the sign, e.g. " + t.Field + " >= 2")
	if p.err == nil && (l.Quoted || !isNumber(l.Text)) {
		p.fail(l.At, "want a number behind the sign, e.g. %s >= 2", t.Field)
	}
	t.Values = []Literal{l}
	return t
}

// equal reads a value or a range.
func (p *parser) equal(t *Test) Expr {
	l := p.literal("a value behind " + t.Field + " =")
	if t.Values = []Literal{l}; p.err != nil || l.Quoted || !strings.Contains(l.Text, "..") {
		return t
	}
	left, right, _ := strings.Cut(l.Text, "..")
	right, closed := strings.CutPrefix(right, "=")
	t.Op, t.Closed = Between, closed
	t.Values = []Literal{{Text: left, At: l.At}, {Text: right, At: l.At}}
	switch {
	case left == "" && right == "" || left != "" && !isNumber(left) ||
		right != "" && !isNumber(right) || closed && right == "":
		p.fail(l.At, "%q is not a range of numbers, e.g. 2..4; quote it if it is a text",
			excerpt.Of(l.Text, 40))
	case left == "" || right == "":
	case compareNumbers(left, right) > 0:
		p.fail(l.At, "%s ends before it begins", l.Text)
	case compareNumbers(left, right) == 0 && !closed:
		p.fail(l.At, "%s holds nothing; %s..=%s includes its end", l.Text, left, right)
	}
	return t
}

func (p *parser) in(t *Test) Expr {
	if !p.take("(") {
		p.fail(p.at, "want ( and values behind in, e.g. %s in (1, 2)", t.Field)
	}
	for p.err == nil {
		l := p.literal("a value of a list")
		if p.err == nil && !l.Quoted && strings.Contains(l.Text, "..") {
			p.fail(l.At, "a list has values, and no ranges; join conditions by or")
		}
		t.Values = append(t.Values, l)
		p.countOne(l.At)
		if !p.take(",") {
			if p.err == nil && !p.take(")") {
				p.fail(p.at, "want ) or a comma behind the value of a list")
			}
			break
		}
	}
	return t
}

func (p *parser) countOne(start int) {
	if p.count++; p.count > maxTests {
		p.fail(start, "more than %d conditions and values", maxTests)
	}
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

// endsWord reports whether a character is not part of a word.
func endsWord(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`,()"=!<>^{}`, r) }

// word reads a word, "" if none comes next. A = behind two dots is part of it.
func (p *parser) word() string {
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

// literal reads a word or a quoted text; want says of what there must be one, "" that it may be
// missing.
func (p *parser) literal(want string) Literal {
	p.skipSpace()
	l := Literal{At: p.at}
	if !p.take(`"`) {
		l.Text = p.word()
		if l.Text == "" && want != "" {
			p.fail(l.At, "want %s", want)
		}
		return l
	}
	l.Quoted = true
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			l.Text = b.String()
			return l
		case c == '\\':
			if p.at == len(p.text) || p.text[p.at] != '"' && p.text[p.at] != '\\' {
				p.fail(p.at-1, `in quotes a \ is before a " or a \ only`)
				return l
			}
			c = p.text[p.at]
			p.at++
		}
		b.WriteByte(c)
	}
	p.fail(l.At, "want a closing quote")
	return l
}
