// Package sealed is what a plugin in Go needs to add up, compare and select payloads of sdk/seal
// without a key: headers, the encrypted lanes of sums with the records that they are of, order and
// equality tags, the tokens of clients. It is the equal of sealed.h and sealed_sum.h for C and of
// sealed.rs for Rust, and writes the same bytes; sdk/seal/SEALING.md has the layouts.
//
// The package owns the forms of layouts and tokens as a plugin takes them, and the form of partials
// as it saves and returns them. It knows no keys and no values. Its main types are [Layout], [Sum]
// and [Token]. It starts no goroutines.
package sealed

import (
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/plugin/guest"
)

// Statuses of errors of this package.
const (
	StatusNotSealed = -100 // a payload is not of the schema
	StatusPartial   = -101 // a saved sum is damaged
	StatusToken     = -102 // a token has no tags for a record
)

// fail returns an error with a status of this package.
func fail(status int32, text string) error { return &guest.Error{Status: status, Text: text} }

// invalid returns an error of a parameter.
func invalid(text string) error { return &guest.Error{Status: plugin.StatusParams, Text: text} }
