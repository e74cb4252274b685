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

// flagError says what is wrong with a flag in plain words: what strconv says names its functions.
// An unknown flag comes with those whose names are near.
func flagError(c *cobra.Command, err error) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		if hint := c.Annotations[elsewhere+unknown.GetSpecifiedName()]; hint != "" {
			return UsageError{errors.New(text + "; " + hint)}
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
