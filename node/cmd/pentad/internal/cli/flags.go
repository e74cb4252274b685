package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
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

// Once lets a flag be given once: the last of two would win in silence. instead says what to do.
func Once(c *cobra.Command, flag, instead string) {
	f := c.Flags().Lookup(flag)
	f.Value = &onceFlag{Value: f.Value, instead: instead}
}

type onceFlag struct {
	pflag.Value
	instead string
	given   bool
}

// Set implements pflag.Value.
func (f *onceFlag) Set(text string) error {
	if f.given {
		return errors.New("is given twice; " + f.instead)
	}
	f.given = true
	return f.Value.Set(text)
}

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

// TenantFlag reads a tenant by its number, or by a name that is looked up before the command runs.
type TenantFlag struct {
	CID  *int32
	name string
}

// Set implements pflag.Value.
func (f *TenantFlag) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	switch {
	case text == "":
		return errors.New("must not be empty")
	case err != nil && registry.ReadsAsIDs(text):
		return errors.New("not the number of a tenant")
	case err != nil:
		f.name, *f.CID = text, 0
	case n < 0 || n >= record.CID.Max():
		return fmt.Errorf("%d is outside %d to %d", n, record.CID.Min(), record.CID.Max()-1)
	default:
		f.name, *f.CID = "", int32(n)
	}
	return nil
}

// String implements pflag.Value.
func (f *TenantFlag) String() string { return f.name }

// Type implements pflag.Value.
func (f *TenantFlag) Type() string { return "tenant" }

// findTenant looks the tenant of a command up if it is given by a name.
func (a *App) findTenant(c *cobra.Command) error {
	flag := c.Flags().Lookup("cid")
	if flag == nil {
		return nil
	}
	f, ok := flag.Value.(*TenantFlag)
	if !ok || f.name == "" {
		return nil
	}
	db, err := a.Connect(c.Context())
	if err != nil {
		return err
	}
	all, err := db.Tenants(c.Context())
	if err = FirstError(err, db.Close()); err != nil {
		return err
	}
	for _, t := range all {
		if t.Name == f.name {
			*f.CID = t.CID
			return nil
		}
	}
	return Usagef("--cid %q is neither an integer nor the name of a tenant; pentad tenant ls "+
		"lists them", excerpt.Of(f.name, 80))
}
