package sealing

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/sdk/wire"
)

// condition is what --where says of a field.
type condition struct {
	field seal.Field
	equal bool
	value seal.Value
	r     seal.Range
}

// parseCondition reads FIELD, a comparison and a value.
func parseCondition(s *seal.Schema, text string) (c condition, err error) {
	at := strings.IndexAny(text, "<>=")
	if at < 0 {
		return c, cli.Usagef("--where %q: say FIELD>=VALUE, or with <=, >, < or ==", text)
	}
	op := text[at : at+1]
	if strings.HasPrefix(text[at+1:], "=") {
		op += "="
	}
	name, value := strings.TrimSpace(text[:at]), text[at+len(op):]
	found := false
	for _, f := range s.Definition().Fields {
		if f.Name == name {
			c.field, found = f, true
		}
	}
	switch {
	case !found:
		return c, cli.Usagef("--where %q: the schema has no field %q", text, name)
	case op == "=":
		return c, cli.Usagef("--where %q: equal is ==", text)
	case c.field.Kind == seal.Text && op != "==":
		return c, cli.Usagef("--where %q: a text is compared with ==", text)
	case c.field.Kind == seal.Text && name != text[:at]:
		return c, cli.Usagef("--where %q: a text is compared as it is, with its spaces; leave out "+
			"those around ==", text)
	case c.field.Kind == seal.Text:
		c.equal, c.value = true, seal.Value{Text: value}
		return c, nil
	}
	units, err := c.field.Parse(strings.TrimSpace(value))
	if err != nil {
		return c, cli.Usagef("--where %q: %w", text, err)
	}
	c.r, c.value = seal.Everything, seal.Value{Number: units}
	switch op {
	case "==":
		c.equal = c.field.Equal != nil
		c.r = seal.Range{Low: units, High: units}
	case ">=":
		c.r.Low = units
	case ">":
		c.r.Low = units + 1
	case "<=":
		c.r.High = units
	case "<":
		c.r.High = units - 1
	}
	return c, nil
}

// addFilters adds a filter for each condition, with tokens of the series that the query finds.
func (f *sumFlags) addFilters(
	ctx context.Context, db *client.Client, s *sealer.Sealer, query *record.Query,
) error {
	if len(f.where) == 0 {
		return nil
	}
	conditions := make([]condition, len(f.where))
	for i, text := range f.where {
		var err error
		if conditions[i], err = parseCondition(s.Schema, text); err != nil {
			return err
		}
	}
	cid, series, err := seriesOf(ctx, db, query)
	if err != nil {
		return err
	}
	t, err := s.Tenant(cid)
	if err != nil {
		return err
	}
	for i := range conditions {
		name, token, err := conditions[i].token(ctx, t, s.Schema, query, series)
		if err != nil {
			return err
		}
		_, doc, call, err := queryflags.FindPlugin(ctx, db, name)
		if err != nil {
			return err
		}
		if call.Params, err = doc.EncodeParams(map[string]string{"token": token}); err != nil {
			return err
		}
		query.Filters = append(query.Filters, call)
	}
	return nil
}

// token makes the token of a condition, for the plugin that is named.
func (c *condition) token(
	ctx context.Context, t *seal.Tenant, s *seal.Schema, query *record.Query, series []seal.Series,
) (name, token string, err error) {
	if !c.equal {
		token, err = t.RangeToken(ctx, s, c.field.Name, c.r, series...)
		return "sealed-range", token, err
	}
	during := seal.Period{}
	if ranges := query.Box[record.Cap]; len(ranges) > 0 {
		during = seal.Period{FromNs: ranges[0].From, ToNs: ranges[len(ranges)-1].To}
	}
	token, err = t.EqualToken(ctx, s, c.field.Name, c.value, during, series...)
	return "sealed-equal", token, err
}

// seriesOf asks which series a query has records of; they are of one tenant.
func seriesOf(
	ctx context.Context, db *client.Client, query *record.Query,
) (cid int32, series []seal.Series, err error) {
	q := *query
	q.Filters, q.GroupBy = nil, record.GroupBy{CID: true, MID: true, MOID: true}
	if _, _, q.Aggregate, err = queryflags.FindPlugin(ctx, db, "count"); err != nil {
		return 0, nil, err
	}
	groups, end, err := db.Aggregate(ctx, &q)
	if err != nil {
		return 0, nil, err
	}
	for _, g := range groups {
		if len(series) > 0 && g.CID != cid {
			return 0, nil, errTenants()
		}
		cid = g.CID
		series = append(series, seal.Series{MID: g.MID, MOID: g.MOID})
	}
	return cid, series, queryflags.CheckEnd(end)
}

func errTenants() error {
	return cli.Usagef("the query has records of several tenants, whose keys differ; choose one " +
		"with --cid")
}

// aggregate is the plugin that adds up, and its parameters.
func (f *sumFlags) aggregate(s *seal.Schema) (name string, params map[string]string, err error) {
	params = map[string]string{"layout": s.Layout()}
	switch {
	case f.byKey:
		params["tag"] = strconv.Itoa(seal.KeyOffset)
		return "sealed-group", params, nil
	case f.by == "":
		return "sealed-stats", params, nil
	}
	at, err := s.TagOffset(f.by)
	if err != nil {
		return "", nil, cli.Usagef("--by: %w", err)
	}
	params["tag"] = strconv.Itoa(at)
	return "sealed-group", params, nil
}

// valueSum is the sum of a group, or of one value in it.
type valueSum struct {
	value output.Value
	parts []*seal.Partial
}

// needsKeys reports whether a sum is over several keys, each of which has a MAC of its own. Then
// the node is asked again, for the sums of each key.
func (f *sumFlags) needsKeys(s *seal.Schema, groups []wire.Group) (bool, error) {
	if f.by != "" || s.Definition().MAC == nil {
		return false, nil
	}
	for i := range groups {
		p, err := seal.ParsePartial(s, groups[i].Result)
		if err != nil {
			return false, fmt.Errorf("sum of the node: %w", err)
		}
		if len(p.KeyIDs()) > 1 {
			return true, nil
		}
	}
	return false, nil
}

// partials reads what the node made of a group: one, or with --by one for each value.
func (f *sumFlags) partials(
	ctx context.Context, s *sealer.Sealer, g *wire.Group,
) (all []valueSum, err error) {
	if f.by == "" && !f.byKey {
		p, err := seal.ParsePartial(s.Schema, g.Result)
		return []valueSum{{parts: []*seal.Partial{p}}}, err
	}
	groups, err := seal.ParseGroups(s.Schema, g.Result)
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	if f.byKey {
		one := valueSum{}
		for i := range groups {
			one.parts = append(one.parts, groups[i].Partial)
		}
		return []valueSum{one}, nil
	}
	for i := range groups {
		if groups[i].Example.CID != groups[0].Example.CID {
			return nil, errTenants()
		}
	}
	t, err := s.Tenant(groups[0].Example.CID)
	if err != nil {
		return nil, err
	}
	values, err := t.OpenGroups(ctx, s.Schema, f.by, groups)
	for _, v := range values {
		var shown output.Value
		for _, field := range s.Schema.Definition().Fields {
			switch {
			case field.Name != f.by:
			case field.Kind == seal.Text:
				shown = output.Text(v.Value.Text)
			default:
				shown = output.Raw([]byte(field.Format(v.Value.Number)))
			}
		}
		all = append(all, valueSum{shown, v.Parts})
	}
	return all, err
}
