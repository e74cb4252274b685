package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// flagError says what is wrong with a flag in plain words: what strconv says names its functions.
func flagError(err error) error {
	text := err.Error()
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
