// Package expr reads the language that selectors of devices and conditions on payloads have in
// common: comparisons of keys with values, joined by and, or, not and parentheses.
//
// It owns the grammar and the errors, which point at a character, and says nothing of what a
// comparison means. Its main types are [Language], [Expr] and [SyntaxError]; it starts no
// goroutines.
package expr

import (
	"fmt"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Limits of a text. They bound the time and the memory that one takes.
const (
	MaxBytes = 16 << 10
	maxTests = 1000 // values of lists included
	maxDepth = 32   // of parentheses and negations
)

// Language is what a language has of its own.
type Language struct {
	// Example is a condition, for errors.
	Example string
	// IsNumber reports whether a word is a number, and Compare orders two numbers.
	IsNumber func(word string) bool
	Compare  func(a, b string) int
	// Bare allows a key alone, which is then compared with the word true.
	Bare bool
	// Calls are the words behind which arguments in parentheses make a condition, and Words those
	// that are one alone.
	Calls, Words []string
}

// Expr is a condition that was read: an [All], [Any], [Not], [*Test] or [*Call].
type Expr interface{ isExpr() }

// All is met if all of two or more conditions are.
type All []Expr

// Any is met if one of two or more conditions is.
type Any []Expr

// Not is met if a condition is not.
type Not struct{ Expr Expr }

// Test compares what a key stands for.
type Test struct {
	Key string
	At  int // in the text, in bytes
	Op  Op
	// Values has one value or, of In, several. Of Between it has the low and the high end, empty
	// where there is none. Those of the other comparisons but Prefix are numbers.
	Values []Literal
	Closed bool // the high end of Between is included
}

// Op is how a test compares.
type Op uint8

// Comparisons. Not equal is the [Not] of In.
const (
	In Op = iota
	Prefix
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	Between
	Alone // a word that no comparison follows, without values
)

// Call is a condition of its own kind with arguments.
type Call struct {
	Name    string
	At, End int // of its first character and of its last, in the text, in bytes
	Args    []Literal
}

// Literal is a value as a condition has it.
type Literal struct {
	Text   string
	Quoted bool // it is a text, whatever it says
	At     int  // in the text, in bytes
}

func (All) isExpr()   {}
func (Any) isExpr()   {}
func (Not) isExpr()   {}
func (*Test) isExpr() {}
func (*Call) isExpr() {}

// SyntaxError is what is wrong with a text, and where.
type SyntaxError struct {
	Text   string // that was read
	Offset int    // in bytes
	Reason string
}

// Error says at which character, counted from 1.
func (e *SyntaxError) Error() string {
	at := utf8.RuneCountInString(e.Text[:e.Offset]) + 1
	rest := e.Text[e.Offset:]
	if rest == "" {
		return "at its end: " + e.Reason
	}
	return fmt.Sprintf("character %d (%q): %s", at, excerpt.Of(rest, 20), e.Reason)
}
