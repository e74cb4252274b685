package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// elsewhere begins the name of an annotation with a hint about a flag.
const elsewhere = "flag "

// Elsewhere says what to type in place of a flag that a command does not have: the hint ends the
// error of the flag.
func Elsewhere(c *cobra.Command, flag, hint string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[elsewhere+flag] = hint
}

// otherNames are what people call flags that some commands have.
var otherNames = map[string]string{"customer": "cid", "meter": "mid", "sensor": "mid",
	"series": "mid", "metric": "moid",
	"time": "cap", "from": "cap", "to": "cap", "start": "cap", "end": "cap", "since": "cap",
	"until": "cap", "range": "cap", "format": "output", "json": "output", "csv": "output",
	"host": "addr", "server": "addr", "node": "addr", "url": "addr", "timezone": "tz",
	"zone": "tz", "interval": "every", "bucket": "every", "step": "every", "window": "every",
	"aggregate": "agg", "plugin": "agg", "group-by": "group", "by": "group", "as-of": "asof",
	"datadir": "dir", "data": "dir", "port": "listen"}

// flagError says what is wrong with a flag in plain words: what strconv says names its functions.
// An unknown flag comes with those whose names are near.
func flagError(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
		return NoCommand(c, args) // whose flags cannot be known
	}
	text := err.Error()
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		if hint := c.Annotations[elsewhere+unknown.GetSpecifiedName()]; hint != "" {
			return UsageError{errors.New(text + "; " + hint)}
		}
		if other := otherNames[unknown.GetSpecifiedName()]; c.Flags().Lookup(other) != nil {
			return UsageError{errors.New(text + "; did you mean --" + other + "?")}
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if hint := excerpt.DidYouMean(unknown.GetSpecifiedName(), names); hint != "" {
			return UsageError{errors.New(text + strings.ReplaceAll(
				strings.Replace(hint, "mean ", "mean --", 1), " or ", " or --"))}
		}
	}
	var number *strconv.NumError
	if errors.As(err, &number) {
		text = strings.Replace(text, number.Error(), expected(number), 1)
	}
	return UsageError{fmt.Errorf("%s; see --help", text)}
}

// expected says which numbers a flag takes.
func expected(e *strconv.NumError) string {
	what := map[string]string{"ParseFloat": "a number", "ParseBool": "true or false",
		"ParseUint": "an integer from 0"}[e.Func]
	if what == "" {
		what = "an integer"
	}
	if errors.Is(e.Err, strconv.ErrRange) {
		return "number out of range; expected " + what
	}
	return "expected " + what
}
