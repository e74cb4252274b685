package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func (a *app) countCommand() *cobra.Command {
	var q queryFlags
	c := &cobra.Command{
		Use:   "count",
		Short: "Count records in a box of the five axes",
		Args:  noCommand,
		Example: `  pentad count
  pentad count --cid 1 --cap 2026-11 --view latest
  pentad count --mid 7 --acq now-1h.. --fail-empty -q`,
		RunE: func(c *cobra.Command, _ []string) error { return a.count(c.Context(), &q) },
	}
	q.addBox(c)
	q.addFilter(c)
	return c
}

func (a *app) count(ctx context.Context, q *queryFlags) error {
	query, err := q.query(a)
	if err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if query.Filter, err = a.call(ctx, db, q.filter, q.filterParams); err != nil {
		return err
	}
	start := a.now()
	records, err := countRecords(ctx, db, a.addr, query)
	if err != nil {
		return err
	}
	err = a.one([]output.Column{right("records"), right("took")}, output.Count(records),
		output.Span(a.now().Sub(start).Round(time.Microsecond)))
	if err == nil && records == 0 && q.failEmpty {
		return errEmpty
	}
	return err
}

// maxCountURLBytes is where a question is too long for a URL; the same is then asked as an
// aggregate, which looks at every record.
const maxCountURLBytes = 3000

// countRecords counts on the node what a query without limit finds; no record travels.
func countRecords(ctx context.Context, db *client.Client, addr string, q *record.Query) (uint64,
	error) {
	if q.Filter.Name == "" {
		if path := countPath(q); len(path) <= maxCountURLBytes {
			return countByIndex(ctx, addr, path)
		}
	}
	counted := *q
	counted.Order, counted.Limit, counted.KeysOnly = record.OrderNone, 0, false
	counted.Aggregate = record.PluginCall{Name: "count"}
	groups, end, err := db.Aggregate(ctx, &counted)
	if err != nil {
		return 0, err
	}
	return sumRecords(groups), checkEnd(end)
}

// countPath writes a query as parameters of the JSON interface.
func countPath(q *record.Query) string {
	values := url.Values{}
	for d := range record.NumDims {
		if dim := record.Dim(d); len(q.Box[d]) > 0 {
			values.Set(dim.String(), selector.Format(dim, q.Box[d]))
		}
	}
	switch q.View {
	case record.ViewLatest:
		values.Set("view", "latest")
	case record.ViewAsOf:
		values.Set("asof", strconv.FormatInt(q.AsOfAcqNs, 10))
	}
	return "/v1/count?" + values.Encode()
}

// countByIndex asks the JSON interface, which the index answers without reading most records.
func countByIndex(ctx context.Context, addr, path string) (uint64, error) {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	node, err := url.Parse(addr)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node.Host+path, nil)
	if err != nil {
		return 0, err
	}
	// As in package client: no proxy, and no connection that outlives the call.
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := once.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Count uint64
		End   struct {
			Complete bool
			Reason   string
		}
		Code, Detail string
	}
	const maxAnswerBytes = 1 << 20
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswerBytes)).Decode(&answer)
	switch {
	case err != nil:
		return 0, fmt.Errorf("count: status %d: %w", response.StatusCode, err)
	case response.StatusCode != http.StatusOK:
		return 0, &wire.Error{Kind: wire.ParseKind(answer.Code), Message: answer.Detail}
	}
	return answer.Count, checkEnd(wire.End{Complete: answer.End.Complete,
		Reason: answer.End.Reason})
}
