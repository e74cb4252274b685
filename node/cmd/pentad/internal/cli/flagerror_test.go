package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// No flag of any command answers a wrong value with the words of strconv.
func TestFlagErrors(t *testing.T) {
	for what, want := range map[string]string{
		"float": `invalid argument "abc" for "--float" flag: expected a number; see --help`,
		"int":   `invalid argument "abc" for "--int" flag: expected an integer; see --help`,
		"uint32": `invalid argument "abc" for "--uint32" flag: expected an integer ` +
			`from 0; see --help`,
		"bool": `invalid argument "abc" for "--bool" flag: expected true or false; see --help`,
	} {
		c := &cobra.Command{SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command,
			[]string) {
		}}
		c.SetFlagErrorFunc(flagError)
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
			what != "bool" && !strings.Contains(err.Error(), "out of range") {
			t.Errorf("a large %s: %.500v", what, err)
		}
	}
}
