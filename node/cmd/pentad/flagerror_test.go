package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// No flag of any command answers a wrong value with the words of strconv.
func TestFlagErrors(t *testing.T) {
	for what, want := range map[string]string{
		"float": `invalid argument "abc" for "--float" flag: a number is wanted; see --help`,
		"int":   `invalid argument "abc" for "--int" flag: a whole number is wanted; see --help`,
		"uint32": `invalid argument "abc" for "--uint32" flag: a whole number from 0 on is ` +
			`wanted; see --help`,
		"bool": `invalid argument "abc" for "--bool" flag: true or false is wanted; see --help`,
	} {
		c := &cobra.Command{SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command,
			[]string) {
		}}
		c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
		flags := c.Flags()
		flags.Float64("float", 0, "")
		flags.Int("int", 0, "")
		flags.Uint32("uint32", 0, "")
		flags.Bool("bool", false, "")
		c.SetArgs([]string{"--" + what + "=abc"})
		if err := c.Execute(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		c.SetArgs([]string{"--" + what + "=1" + strings.Repeat("0", 400)})
		if err := c.Execute(); err == nil || strings.Contains(err.Error(), "strconv") ||
			what != "bool" && !strings.Contains(err.Error(), "too large") {
			t.Errorf("a large %s: %.500v", what, err)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		err := c.FlagErrorFunc()(c, c.ParseFlags([]string{"--quiet=abc"}))
		if !strings.Contains(err.Error(), "true or false is wanted") {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
	}
	walk((&app{getenv: func(string) string { return "" }}).rootCommand())
}
