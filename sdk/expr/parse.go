package expr

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Parse reads a text, and counts its tests and values:
//
//	text   all { "or" all }
//	all    one { ( "," | "and" ) one }
//	one    ( "!" | "not" ) one | "(" text ")" | test | call
//	test   key ( "=" | "==" | "!=" ) value
//	       key ( "=" | "==" | "!=" ) a..b       a number from a on below b; a..=b: b included,
//	                                            a.. and ..b: without the other end
//	       key ( "<" | "<=" | ">" | ">=" ) number
//	       key "^=" value                       a text that begins with the value
//	       key [ "not" ] "in" "(" value { "," value } ")"
//	       key                                  where the language has it; some keys everywhere
//	call   word "(" value { "," value } ")"     with the words of the language
//
// A key is a word, or a text in double quotes. A value is the same. In quotes \ is before " and \
// itself. Where "," or "and" meets "or" it binds more closely.
//
// The error is a [*SyntaxError].
func (l *Language) Parse(text string) (x Expr, tests int, err error) {
	p := &parser{Language: l, text: text}
	if len(text) > MaxBytes {
		return nil, 0, &SyntaxError{text, 0, fmt.Sprintf("it has %d bytes, at most %d", len(text),
			MaxBytes)}
	}
	for i, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !strings.ContainsRune("\t\n\r", r) {
			return nil, 0, &SyntaxError{text, i, "a character that is not printable"}
		}
	}
	x = p.or()
	if p.skipSpace(); p.err == nil && p.at < len(text) {
		p.unexpected()
	}
	if p.err != nil {
		return nil, 0, p.err
	}
	return x, p.count, nil
}

// parser reads a text by recursive descent. After an error it is at the end of the text.
type parser struct {
	*Language
	text  string
	at    int // in bytes
	depth int
	count int // of tests and values
	err   *SyntaxError
	// isText: what was read last is a value that is a word and no number.
	isText bool
}

// fail notes the first error and ends the parse.
func (p *parser) fail(at int, reason string, args ...any) {
	if p.err == nil {
		p.err = &SyntaxError{p.text, at, fmt.Sprintf(reason, args...)}
	}
	p.at = len(p.text)
}

// unexpected fails at what follows a condition.
func (p *parser) unexpected() {
	at := p.at
	if p.text[at] == ')' {
		p.fail(at, "a parenthesis that none opened")
		return
	}
	hint, words := "", []string{"and", "or", "not"}
	switch word := p.word(); {
	case p.text[at] == '&':
		hint = "; did you mean and?"
	case p.text[at] == '|':
		hint = "; did you mean or?"
	case strings.EqualFold(word, "between"):
		hint = "; a range is = 2..=4"
	case !slices.Contains(words, word):
		if hint = excerpt.DidYouMean(word, words); hint == "" && p.isText {
			hint = "; a text of several words is in double quotes"
		}
	}
	p.fail(at, "conditions follow each other; write a comma, and or or between them%s", hint)
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
	key := p.literal("")
	if p.countOne(key.At); p.err != nil {
		return nil
	}
	if key.Text == "" {
		p.fail(key.At, "want a condition, e.g. %s", p.Example)
		return nil
	}
	if !key.Quoted && slices.Contains(p.Calls, key.Text) {
		return p.call(key)
	}
	t := &Test{Key: key.Text, At: key.At}
	p.isText = false
	if !key.Quoted && p.IsNumber(key.Text) {
		p.fail(key.At, "%s is a number, and a condition begins with a name, e.g. %s", p.short(t),
			p.Example)
	}
	p.misspelledSign(t.Key)
	switch {
	case p.take("!="):
		return Not{p.equal(t)}
	case p.take("^="):
		t.Op = Prefix
		l := p.literal(`a value behind ^=, e.g. ` + p.short(t) + ` ^= "err"`)
		t.Values, p.isText = []Literal{l}, !l.Quoted && !p.IsNumber(l.Text)
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
	case p.takeWords("not", "in"):
		return Not{p.in(t)}
	}
	return p.bare(t)
}

func (p *parser) short(t *Test) string { return excerpt.Of(t.Key, 40) }

// misspelledSign fails at signs of other languages.
func (p *parser) misspelledSign(key string) {
	p.skipSpace()
	for _, s := range [][2]string{{"<>", "!="}, {"=>", ">="}, {"=<", "<="}, {"===", "="},
		{"!==", "!="}, {"=^", "^="}} {
		if strings.HasPrefix(p.text[p.at:], s[0]) {
			p.fail(p.at, "%s is not a comparison; did you mean %s %s?", s[0],
				excerpt.Of(key, 40), s[1])
		}
	}
}

// bare reads a key that no comparison follows.
func (p *parser) bare(t *Test) Expr {
	switch {
	case p.err != nil:
	case slices.Contains(p.Words, t.Key):
		t.Op = Alone
		return t
	case p.take("("):
		p.fail(t.At, "there is no %s(...)%s", p.short(t),
			excerpt.DidYouMean(t.Key, append([]string{"not"}, p.Calls...)))
	case !p.Bare && p.takeWord("between"):
		p.fail(p.at-len("between"), "a range is %s = 2..=4", p.short(t))
	case !p.Bare:
		p.fail(p.at, "want =, !=, <, <=, >, >=, ^= or in behind %s, e.g. %s > 20", p.short(t),
			p.short(t))
	}
	t.Values = []Literal{{Text: "true", At: t.At}}
	return t
}

func (p *parser) number(t *Test, op Op) Expr {
	t.Op = op
	want := "a number behind the sign, e.g. " + p.short(t) + " >= 2"
	l := p.literal(want)
	if p.err == nil && (l.Quoted || !p.IsNumber(l.Text)) {
		p.fail(l.At, "want %s", want)
	}
	t.Values = []Literal{l}
	return t
}

// equal reads a value or a range.
func (p *parser) equal(t *Test) Expr {
	l := p.literal("a value behind " + p.short(t) + " =")
	p.isText = !l.Quoted && !p.IsNumber(l.Text)
	if t.Values = []Literal{l}; p.err != nil || l.Quoted || !strings.Contains(l.Text, "..") {
		return t
	}
	left, right, _ := strings.Cut(l.Text, "..")
	right, closed := strings.CutPrefix(right, "=")
	t.Op, t.Closed = Between, closed
	t.Values = []Literal{{Text: left, At: l.At}, {Text: right, At: l.At}}
	switch {
	case left == "" && right == "" || left != "" && !p.IsNumber(left) ||
		right != "" && !p.IsNumber(right) || closed && right == "":
		p.fail(l.At, "%q is not a range of numbers, e.g. 2..4; quote it if it is a text",
			excerpt.Of(l.Text, 40))
	case left == "" || right == "":
	case p.Compare(left, right) > 0:
		p.fail(l.At, "%s ends before it begins", excerpt.Of(l.Text, 40))
	case p.Compare(left, right) == 0 && !closed:
		p.fail(l.At, "%s holds nothing; %s..=%s includes its end", excerpt.Of(l.Text, 40),
			excerpt.Of(left, 20), excerpt.Of(right, 20))
	}
	return t
}

func (p *parser) in(t *Test) Expr {
	if !p.take("(") {
		p.fail(p.at, "want ( and values behind in, e.g. %s in (1, 2)", p.short(t))
	}
	t.Values, _ = p.values("a value of a list")
	for _, l := range t.Values {
		if !l.Quoted && strings.Contains(l.Text, "..") {
			p.fail(l.At, "a list has values, and no ranges; join conditions by or")
		}
	}
	return t
}

// values reads values behind a parenthesis, and the one that closes it, which is at end.
func (p *parser) values(want string) (values []Literal, end int) {
	for p.err == nil {
		l := p.literal(want)
		values = append(values, l)
		p.countOne(l.At)
		if p.take(",") {
			continue
		}
		if !p.take(")") {
			p.fail(p.at, "want ) or a comma behind %s", want)
		}
		break
	}
	return values, p.at - 1
}

func (p *parser) call(name Literal) Expr {
	c := &Call{Name: name.Text, At: name.At}
	if !p.take("(") {
		p.fail(p.at, "want ( behind %s; in quotes it is a name", c.Name)
	}
	c.Args, c.End = p.values("a value of " + c.Name + "(...)")
	return c
}

func (p *parser) countOne(start int) {
	if p.count++; p.count > maxTests {
		p.fail(start, "more than %d conditions and values", maxTests)
	}
}
