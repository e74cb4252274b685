package expr

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

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

func (p *parser) takeWords(first, second string) bool {
	start := p.at
	if p.takeWord(first) && p.takeWord(second) {
		return true
	}
	p.at = start
	return false
}

// endsWord reports whether a character is not part of a word.
func endsWord(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`,()"=!<>^`, r) }

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

// otherQuotes begin texts in other languages, or are what text processors make of quotes.
const otherQuotes = "'`‘’“”„«»"

// literal reads a word or a quoted text; want says of what there must be one, "" that it may be
// missing.
func (p *parser) literal(want string) Literal {
	p.skipSpace()
	l := Literal{At: p.at}
	if !p.take(`"`) {
		first, _ := utf8.DecodeRuneInString(p.text[p.at:])
		if p.at < len(p.text) && strings.ContainsRune(otherQuotes, first) {
			p.fail(l.At, `%c does not quote a text; write "..."`, first)
		}
		l.Text = p.word()
		switch {
		case want == "":
		case l.Text == "":
			p.fail(l.At, "want %s", want)
		case strings.HasSuffix(l.Text, "*"):
			p.fail(l.At, "* is like other characters; a text that begins so is found by ^= "+
				"without it; quote it if it is meant")
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

// AppendLiteral appends a text such that [Language.Parse] reads it as a value: as a word if it may
// be one.
func AppendLiteral(dst []byte, l Literal) []byte {
	first, _ := utf8.DecodeRuneInString(l.Text)
	if !l.Quoted && l.Text != "" && !strings.ContainsFunc(l.Text, endsWord) &&
		!strings.Contains(l.Text, "..") && !strings.HasSuffix(l.Text, "*") &&
		!strings.ContainsRune(otherQuotes, first) {
		return append(dst, l.Text...)
	}
	dst = append(dst, '"')
	for _, c := range []byte(l.Text) {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}
