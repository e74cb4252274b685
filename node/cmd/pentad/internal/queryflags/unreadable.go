package queryflags

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	skipFlag       = "skip-unreadable"
	readableFilter = "readable" // a standard plugin
)

// unreadable is the records that --skip-unreadable leaves out.
type unreadable struct {
	skip   bool
	call   record.PluginCall // of the filter that keeps only them; without a name: no record is
	params string            // of call, as a flag
	// reader is the document of the first filter that reads a number, and values its parameters.
	reader *plugin.Doc
	values map[string]string
}

// AddSkipUnreadable adds the flag that leaves out records which the aggregate, or without one the
// first filter that reads a number, cannot read.
func (q *Flags) AddSkipUnreadable(c *cobra.Command) {
	c.Flags().BoolVar(&q.unreadable.skip, skipFlag, false,
		"leave out records whose payload the plugin cannot read,\nand count them")
}

// readsNumber reports whether a plugin reads a number of a type that is a parameter.
func readsNumber(doc *plugin.Doc) bool {
	return slices.ContainsFunc(doc.Params, func(p plugin.Param) bool { return p.Name == "type" })
}

// skipForFilter is skipUnreadable for a query without an aggregate.
func (q *Flags) skipForFilter(
	ctx context.Context, db *client.Client, query *record.Query,
) error {
	if q.unreadable.skip && q.unreadable.reader == nil {
		return cli.Usagef("--%s: no --filter reads a number of a type; leave the flag out",
			skipFlag)
	}
	return q.skipUnreadable(ctx, db, q.unreadable.reader, q.unreadable.values, query)
}

// skipUnreadable puts the filter before all others if the flag is given; values are the parameters
// of the aggregate.
func (q *Flags) skipUnreadable(ctx context.Context, db *client.Client, doc *plugin.Doc,
	values map[string]string, query *record.Query) error {
	if !q.unreadable.skip {
		return nil
	}
	if !readsNumber(doc) {
		return cli.Usagef("--%s: plugin %s has no parameter type, so it reads no number; leave "+
			"the flag out", skipFlag, doc.Name)
	}
	if len(query.Filters) >= record.MaxFilters {
		return cli.Usagef("--%s: is a filter, too; use at most %d others", skipFlag,
			record.MaxFilters-1)
	}
	_, filter, keep, err := FindPlugin(ctx, db, readableFilter)
	if err != nil {
		return err
	}
	number := map[string]string{}
	for _, name := range []string{"type", "offset"} {
		if values[name] != "" {
			number[name] = values[name]
			q.unreadable.params += name + "=" + values[name] + ","
		}
	}
	if keep.Params, err = filter.EncodeParams(number); err != nil {
		return err
	}
	others := keep
	number["keep"] = "others"
	q.unreadable.params += "keep=others"
	if others.Params, err = filter.EncodeParams(number); err != nil {
		return err
	}
	q.unreadable.call = others
	query.Filters = slices.Insert(query.Filters, 0, keep)
	return nil
}

// NoteUnreadable says how many records --skip-unreadable left out, and how to see them.
func (q *Flags) NoteUnreadable(
	ctx context.Context, a *cli.App, db *client.Client, query *record.Query,
) error {
	if q.unreadable.call.Name == "" {
		return nil
	}
	n, err := Count(ctx, db, &record.Query{Box: query.Box, View: query.View,
		Select: query.Select, AsOfAcqNs: query.AsOfAcqNs, Where: query.Where,
		Filters: []record.PluginCall{q.unreadable.call}})
	if err != nil {
		return err
	}
	if n == 0 {
		a.Note("no record was left out: the plugin can read all payloads")
		return nil
	}
	a.Note("left out %s whose payload the plugin cannot read; to see them: pentad get "+
		"with the same selectors, --filter %s --filter-params %s", output.Counted(n, "records"),
		readableFilter, q.unreadable.params)
	return nil
}

// Readable adds the way out to the error of an aggregate or a filter that cannot read a payload.
func Readable(err error) error {
	var remote *wire.Error
	if !errors.As(err, &remote) {
		return err
	}
	if fault, ok := remote.Fault(); ok && fault.Status == plugin.StatusPayload {
		return fmt.Errorf("%w; --%s leaves out such records and counts them", err, skipFlag)
	}
	return err
}
