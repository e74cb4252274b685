package queryflags

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// Filters is the chain of filters: --filter adds one, --filter-params belongs to the last.
type Filters []filterFlag

type filterFlag struct{ Name, Params string }

func (f *Filters) Set(name string) error {
	switch {
	case name == "":
		return errors.New("must not be empty")
	case len(*f) == record.MaxFilters:
		return fmt.Errorf("too many filters; use at most %d", record.MaxFilters)
	}
	*f = append(*f, filterFlag{Name: name})
	return nil
}

func (f *Filters) String() string { return "" }

func (f *Filters) Type() string { return "name" }

// filterParamsFlag is the parameters of the last filter so far.
type filterParamsFlag Filters

func (f *filterParamsFlag) Set(params string) error {
	if len(*f) == 0 {
		return errors.New("no --filter before it; give parameters after their filter")
	}
	last := &(*f)[len(*f)-1]
	switch {
	case params == "":
		return errors.New("must not be empty")
	case last.Params != "":
		return fmt.Errorf("given twice for filter %s; separate parameters by commas", last.Name)
	}
	last.Params = params
	return nil
}

func (f *filterParamsFlag) String() string { return "" }

func (f *filterParamsFlag) Type() string { return "params" }

// Connect connects to the node and makes the calls of the filters of a query.
func Connect(
	ctx context.Context, a *cli.App, q *Flags, query *record.Query,
) (*client.Client, error) {
	db, err := a.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if query.Filters, err = q.Calls(ctx, db, &query.Box); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// ConnectForRecords is Connect for a query without an aggregate: --skip-unreadable is about its
// filters.
func ConnectForRecords(
	ctx context.Context, a *cli.App, q *Flags, query *record.Query,
) (*client.Client, error) {
	db, err := Connect(ctx, a, q, query)
	if err != nil {
		return nil, err
	}
	if err := q.skipForFilter(ctx, db, query); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Calls makes the calls of the filters, asking the node what parameters they have and what the
// quantities of the box are.
func (q *Flags) Calls(ctx context.Context, db *client.Client, box *record.Box) (
	[]record.PluginCall, error) {
	var calls []record.PluginCall
	for _, one := range q.Filters {
		info, doc, call, err := FindPlugin(ctx, db, one.Name)
		if err != nil {
			return nil, err
		}
		if !info.Filter {
			return nil,
				cli.Usagef("--filter %s: an aggregate, not a filter; use pentad plugin run %s",
					one.Name, one.Name)
		}
		var values map[string]string
		call.Params, values, err = q.encodeParams(ctx, db, doc, one.Params, box)
		if err != nil {
			return nil, err
		}
		if q.unreadable.reader == nil && readsNumber(doc) {
			q.unreadable.reader, q.unreadable.values = doc, values
		}
		calls = append(calls, call)
	}
	return calls, nil
}
