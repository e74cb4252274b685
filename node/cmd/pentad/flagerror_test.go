package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// Every command says what is wrong with a flag in plain words.
func TestFlagErrors(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		err := c.FlagErrorFunc()(c, c.ParseFlags([]string{"--quiet=abc"}))
		if !strings.Contains(err.Error(), "expected true or false") {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
	}
	walk((&app{&cli.App{Getenv: func(string) string { return "" }}}).rootCommand())
}
