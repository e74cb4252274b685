package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// filterFlags is the chain of filters: --filter adds one, --filter-params belongs to the last.
type filterFlags []filterFlag

type filterFlag struct{ name, params string }

func (f *filterFlags) Set(name string) error {
	switch {
	case name == "":
		return errors.New("must not be empty")
	case len(*f) == record.MaxFilters:
		return fmt.Errorf("%d filters are the most of one query", record.MaxFilters)
	}
	*f = append(*f, filterFlag{name: name})
	return nil
}

func (f *filterFlags) String() string { return "" }

func (f *filterFlags) Type() string { return "name" }

// filterParamsFlag is the parameters of the last filter so far.
type filterParamsFlag filterFlags

func (f *filterParamsFlag) Set(params string) error {
	if len(*f) == 0 {
		return errors.New("stands before --filter; parameters follow the filter that they " +
			"belong to")
	}
	last := &(*f)[len(*f)-1]
	switch {
	case params == "":
		return errors.New("must not be empty")
	case last.params != "":
		return fmt.Errorf("is given twice for the filter %s; join parameters by commas", last.name)
	}
	last.params = params
	return nil
}

func (f *filterParamsFlag) String() string { return "" }

func (f *filterParamsFlag) Type() string { return "params" }

// connectFor connects to the node and makes the calls of the filters of a query.
func (a *app) connectFor(
	ctx context.Context, q *queryFlags, query *record.Query,
) (*client.Client, error) {
	db, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	if query.Filters, err = q.calls(ctx, db, &query.Box); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// calls makes the calls of the filters, asking the node what parameters they have and what the
// quantities of the box are.
func (q *queryFlags) calls(ctx context.Context, db *client.Client, box *record.Box) (
	[]record.PluginCall, error) {
	var calls []record.PluginCall
	for _, one := range q.filters {
		info, doc, call, err := findPlugin(ctx, db, one.name)
		if err != nil {
			return nil, err
		}
		if !info.Filter {
			return nil, usagef("%s is no filter; pentad plugin run %s runs it", one.name, one.name)
		}
		call.Params, err = encodeParams(ctx, db, doc, one.params, box, q.unchecked)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}
