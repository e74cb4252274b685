// Package params parses the parameters in the URL of a request.
//
// It owns how they are checked: which of them a route has, and how an error names one. It knows
// nothing of what a request does. It has functions only, and starts no goroutines.
package params

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/expr"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Bad returns the error of a parameter, or of another part of a request.
func Bad(name string, err error) *wire.Error {
	reason := record.OutOfRange
	if syntax := (*expr.SyntaxError)(nil); errors.As(err, &syntax) {
		reason = record.Syntax
	}
	return &wire.Error{Kind: wire.KindInvalid, Part: name, Reason: string(reason),
		Message: fmt.Sprintf("parameter %s: %v", name, err)}
}

// Check rejects parameters that the route does not have, that are empty, e.g. by an unset variable
// of a script, or that occur twice. An answer to another query than the client meant is worse than
// none.
func Check(args *fasthttp.Args, known []string) error {
	seen := map[string]bool{}
	for key, value := range args.All() {
		name := string(key)
		switch {
		case !slices.Contains(known, name):
			return unknown(Clip(name), known)
		case len(value) == 0:
			return Bad(name, errors.New("is empty; give it a value or leave it out"))
		case seen[name] && name != "filter" && name != "filter_params":
			return Bad(name, errors.New("is given twice; separate values by commas"))
		}
		seen[name] = true
	}
	return nil
}

// unknown returns the error of a parameter that a route does not have, with those that are near, or
// all of them.
func unknown(name string, known []string) *wire.Error {
	rest := excerpt.DidYouMean(name, known)
	if rest == "" {
		rest = "; there are " + strings.Join(known, ", ")
	}
	if len(known) == 0 {
		rest = "; this route has none"
	}
	return &wire.Error{Kind: wire.KindInvalid, Part: name, Reason: "unknown",
		Message: fmt.Sprintf("unknown parameter %q%s", name, rest)}
}

// Flag parses a parameter that is 1 or 0; without it the flag is off.
func Flag(args *fasthttp.Args, name string) (bool, error) {
	text := string(args.Peek(name))
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, Bad(name, fmt.Errorf("%q is not 1 or 0", Clip(text)))
	}
	return on, nil
}

// Clip shortens a text that an error quotes.
func Clip(s string) string { return strings.ToValidUTF8(excerpt.Of(s, 80), "?") }
