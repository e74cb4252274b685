// Package where has the language of conditions on the fields of payloads, e.g.
//
//	value > -5 and not (quality = 0 or status ^= "err")
//
// It owns the grammar, what a condition means for a payload, and the form in which a query carries
// it: the text of a client, or the text bound to the types of the quantities. It looks like the
// language of selectors of devices. It knows nothing of how rows are stored: who can test a packed
// column walks the [Node] of a [Rule]. Its main types are [Expr] and [Program]; it starts no
// goroutines.
package where

import (
	"fmt"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Value is the name of the field of a payload that is one number or text.
const Value = "value"

// Limits of a condition. They bound the time and the memory that one takes.
const (
	MaxBytes = 16 << 10 // of the text
	// MaxBoundBytes is for the text with the types of quantities.
	MaxBoundBytes = 128 << 10
	maxTests      = 1000 // values of lists included
	// maxBoundTests bounds the comparisons of a condition times the types it is bound to.
	maxBoundTests = 32 << 10
	maxDepth      = 32
)

// SyntaxError is what is wrong with the text of a condition, and where.
type SyntaxError struct {
	Text   string // of the condition
	Offset int    // in bytes
	Reason string
}

// Error says at which character, counted from 1.
func (e *SyntaxError) Error() string {
	at := utf8.RuneCountInString(e.Text[:e.Offset]) + 1
	rest := e.Text[e.Offset:]
	if rest == "" {
		return fmt.Sprintf("where, at its end: %s", e.Reason)
	}
	return fmt.Sprintf("where, character %d (%q): %s", at, excerpt.Of(rest, 20), e.Reason)
}

// Expr is a condition that was read: an [All], [Any], [Not] or [Test].
type Expr interface{ isExpr() }

// All is met if all of two or more conditions are.
type All []Expr

// Any is met if one of two or more conditions is.
type Any []Expr

// Not is met if a condition is not.
type Not struct{ Expr Expr }

// Test compares a field.
type Test struct {
	Field string
	At    int // in the text, in bytes
	Op    Op
	// Values has one value or, of In, several. Of Between it has the low and the high end, empty
	// where there is none.
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
)

// Literal is a value as a condition has it.
type Literal struct {
	Text   string
	Quoted bool // it is a text, whatever it says
	At     int  // in the text of the condition, in bytes
}

func (All) isExpr()   {}
func (Any) isExpr()   {}
func (Not) isExpr()   {}
func (*Test) isExpr() {}
