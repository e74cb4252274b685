package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/internal/timeparse"
)

// FilledFlag is text that is not empty: a variable of a script that is not set must not widen a
// query.
type FilledFlag string

func (f *FilledFlag) Set(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	*f = FilledFlag(text)
	return nil
}

func (f *FilledFlag) String() string { return string(*f) }

func (f *FilledFlag) Type() string { return "string" }

// DurationFlag reads lengths of time with days and weeks.
type DurationFlag int64

func (d *DurationFlag) Set(text string) error {
	length, err := timeparse.Duration(text)
	if err == nil && length == 0 {
		err = errors.New("must be longer than 0")
	}
	*d = DurationFlag(length)
	return err
}

func (d *DurationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *DurationFlag) Type() string { return "duration" }

// Complete offers fixed values of a flag, each with a description after a tab.
func Complete(c *cobra.Command, flag string, values ...string) {
	completions := make([]cobra.Completion, len(values))
	copy(completions, values)
	err := c.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(completions, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic("BUG: completion of --" + flag + ": " + err.Error())
	}
}

// SizeFlag reads numbers of bytes, as 64KiB.
type SizeFlag int64

func (s *SizeFlag) Set(text string) error {
	factor := int64(1)
	number := text
	for unit, by := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"TiB": 1 << 40} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			number, factor = rest, by
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/factor {
		return errors.New("not a number of bytes above 0; use e.g. 65536, 64KiB or 20GiB")
	}
	*s = SizeFlag(n * factor)
	return nil
}

func (s *SizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *SizeFlag) Type() string { return "bytes" }
