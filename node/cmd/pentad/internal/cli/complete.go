package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
)

// completeTimeout bounds what the shell asks a node for: a key press should not wait longer.
const completeTimeout = time.Second

// CompleteFrom offers values of a flag that the node knows.
func (a *App) CompleteFrom(
	c *cobra.Command, flag string, names func(context.Context, *client.Client) ([]string, error),
) {
	register(c, flag, a.Completion(names))
}

// Completion offers what the node knows as arguments, each with a description after a tab. Where no
// node answers there is nothing to offer.
func (a *App) Completion(
	names func(context.Context, *client.Client) ([]string, error),
) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) (
		[]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
		defer cancel()
		db, err := a.Connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer db.Close()
		all, err := names(ctx, db)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteSelectors offers what the node knows for the flags --filter and --moid of a command and
// of those below it: filter plugins, and declared quantities.
func (a *App) CompleteSelectors(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.CompleteSelectors(sub)
	}
	if c.LocalFlags().Lookup("filter") != nil {
		names := PluginNames(func(p *client.PluginInfo) bool { return p.Filter })
		register(c, "filter", orFile(a.Completion(names)))
	}
	if c.LocalFlags().Lookup("moid") != nil {
		register(c, "moid", lastOfList(a.Completion(QuantityIDs)))
	}
}

func register(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("BUG: completion of --" + flag + ": " + err.Error())
	}
}

// orFile offers files where no name begins with what was typed.
func orFile(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, part string) (
		[]cobra.Completion, cobra.ShellCompDirective) {
		all, directive := complete(c, args, part)
		if !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, part) }) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return all, directive
	}
}

// lastOfList completes what follows the last comma of a list.
func lastOfList(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, part string) (
		[]cobra.Completion, cobra.ShellCompDirective) {
		all, directive := complete(c, args, part)
		for i := range all {
			all[i] = part[:strings.LastIndexByte(part, ',')+1] + all[i]
		}
		return all, directive
	}
}

// First completes the first argument only.
func First(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, part string) (
		[]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, part)
	}
}

// PluginNames lists the plugins of a node that fit.
func PluginNames(fits func(*client.PluginInfo) bool) func(context.Context, *client.Client) (
	[]string, error) {
	return func(ctx context.Context, db *client.Client) (names []string, err error) {
		plugins, err := db.Plugins(ctx)
		for i := range plugins {
			if fits(&plugins[i]) {
				names = append(names, plugins[i].Name+"\t"+plugins[i].Description)
			}
		}
		return names, err
	}
}

// QuantityIDs lists the moids that are declared on a node, with name and unit.
func QuantityIDs(ctx context.Context, db *client.Client) (ids []string, err error) {
	all, err := db.Quantities(ctx)
	for i := range all {
		text := strings.TrimSpace(all[i].Name + " " + all[i].Unit)
		ids = append(ids, strconv.Itoa(int(all[i].MOID))+"\t"+text)
	}
	return ids, err
}

// CompleteZone offers the names of time zones for a flag.
func CompleteZone(c *cobra.Command, flag string) { Complete(c, flag, timeparse.ZoneNames()...) }
