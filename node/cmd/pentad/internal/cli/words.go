package cli

import (
	"strings"

	"github.com/pentad-db/pentad/sdk/wire"
)

// kindWords are what a person reads in place of the code of a kind, whose message says the rest by
// itself. Other kinds need no words.
var kindWords = map[wire.Kind]string{
	wire.KindInternal:    "the node failed: ",
	wire.KindDamaged:     "damaged: ",
	wire.KindOverloaded:  "the node is overloaded: ",
	wire.KindUnavailable: "the node is not available: ",
	wire.KindTimeout:     "timed out: ",
	wire.KindCanceled:    "canceled: ",
}

// inWords returns the text of an error with words in place of the codes of nodes.
func inWords(err error) string {
	text := err.Error()
	for _, e := range remotes(err, nil) {
		text = strings.ReplaceAll(text, e.Error(), kindWords[e.Kind]+e.Message)
	}
	return text
}

// remotes appends the errors of nodes among what an error wraps.
func remotes(err error, all []*wire.Error) []*wire.Error {
	if e, ok := err.(*wire.Error); ok {
		return append(all, e)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = remotes(inner, all)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = remotes(inner, all)
		}
	}
	return all
}
