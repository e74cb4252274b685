package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
)

// completeTimeout bounds what the shell asks a node for: a key press should not wait longer.
const completeTimeout = 2 * time.Second

// CompleteFrom offers values of a flag that the node knows.
func (a *App) CompleteFrom(
	c *cobra.Command, flag string, names func(context.Context, *client.Client) ([]string, error),
) {
	if err := c.RegisterFlagCompletionFunc(flag, a.Completion(names)); err != nil {
		panic("BUG: completion of --" + flag + ": " + err.Error())
	}
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
