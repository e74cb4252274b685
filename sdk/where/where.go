// Package where has the language of conditions on the fields of payloads, e.g.
//
//	value > -5 and not (quality = 0 or status ^= "err")
//
// Package expr has the grammar. This one owns what a condition means for a payload, and the form in
// which a query carries it: the text of a client, or the text bound to the types of the quantities.
// It knows nothing of how rows are stored: who can test a packed column walks the [Node] of a
// [Rule]. Its main type is [Program]; it starts no goroutines.
package where

import "github.com/pentad-db/pentad/sdk/expr"

// Value is the name of the field of a payload that is one number or text.
const Value = "value"

// Limits of a condition. They bound the time and the memory that one takes.
const (
	MaxBytes = expr.MaxBytes // of the text
	// MaxBoundBytes is for the text with the types of quantities.
	MaxBoundBytes = 128 << 10
	// maxBoundTests bounds the comparisons of a condition times the types it is bound to.
	maxBoundTests = 32 << 10
)

// Unreadable is a condition by itself: that a payload does not fit its type. It meets no other one.
const Unreadable = "unreadable"

// language is that of conditions. A key is a field: [Value] is the one of a payload that is not a
// struct. A number may be inf and -inf.
var language = expr.Language{Example: "value > 20", IsNumber: isNumber, Compare: compareNumbers,
	Words: []string{Unreadable}}
