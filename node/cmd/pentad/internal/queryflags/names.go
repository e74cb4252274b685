package queryflags

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// AddNames adds --names, by which ids are shown and selected as the names that an import gave them
// to.
func (q *Flags) AddNames(c *cobra.Command) {
	q.named = true
	c.Flags().StringArrayVar(&q.names, "names", nil,
		"show and select ids by names: cid, mid or moid for those that the node\n"+
			"keeps, or PART=FILE[,table=TABLE], e.g. mid=ids.json, for those of a lookup file\n"+
			"of import csv; may be repeated")
}

// namesHint says for the error of a selector with letters how to select by names.
func (q *Flags) namesHint(d record.Dim) string {
	if d > record.MOID || !q.named || !strings.ContainsFunc(q.Parts[d], unicode.IsLetter) {
		return ""
	}
	if d == record.MOID {
		return "; pentad quantity ls lists the quantities with their numbers"
	}
	return fmt.Sprintf("; to select by the names of a lookup file, add --names %s=FILE", d)
}

// ShowNames lets the answer of a command without selectors show the names of --names.
func (q *Flags) ShowNames(ctx context.Context, a *cli.App) error {
	if slices.Contains(q.names, record.MID.String()) {
		return cli.Usagef("--names mid: there are no devices here; use cid or moid")
	}
	return q.readNames(ctx, a)
}

// KeptNames returns the names of ids that --names asks for and the node keeps, by the dimensions of
// the key; none that reads as an id.
func (q *Flags) KeptNames(a *cli.App) map[record.Dim]map[int64]string {
	kept := map[record.Dim]map[int64]string{}
	for d := record.CID; d <= record.MOID; d++ {
		if !slices.Contains(q.names, d.String()) {
			continue
		}
		kept[d] = maps.Clone(a.Names[d.String()])
		maps.DeleteFunc(kept[d], func(_ int64, name string) bool {
			return registry.ReadsAsIDs(name)
		})
	}
	return kept
}

// readNames reads the files of --names, lets the answer show names, and replaces names in the
// selectors.
func (q *Flags) readNames(ctx context.Context, a *cli.App) error {
	for _, text := range q.names {
		if kept := q.keptNames(text); kept != nil {
			if err := kept(ctx, a); err != nil {
				return err
			}
			continue
		}
		part, file, ok := strings.Cut(text, "=")
		dim := slices.Index([]string{"cid", "mid", "moid"}, part)
		if !ok || dim < 0 || file == "" {
			return cli.Usagef("--names %q: malformed; use cid, mid or moid, or "+
				"PART=FILE[,table=TABLE], e.g. mid=ids.json", text)
		}
		file, table, _ := strings.Cut(file, ",table=")
		ids, err := csvimport.ReadNames(file, table)
		if several := (*csvimport.TablesError)(nil); errors.As(err, &several) {
			var choices []string
			for _, name := range several.Tables {
				choices = append(choices, fmt.Sprintf("--names %s,table=%s", text, name))
			}
			return cli.Usagef("--names %s: %w; choose the one of %s: %s", text, err, part,
				strings.Join(choices, " or "))
		}
		if err != nil {
			return cli.Usagef("--names: %w", err)
		}
		d := record.Dim(dim)
		if q.Parts[d], err = selectNames(q.Parts[d], ids, file); err != nil {
			return cli.Usagef("--%s: %w", d, err)
		}
		showNames(a, part, ids)
	}
	return nil
}

// showNames lets answers show names in place of ids.
func showNames(a *cli.App, part string, ids map[string]int64) {
	names := make(map[int64]string, len(ids))
	for name, id := range ids {
		names[id] = name
	}
	if a.Names == nil {
		a.Names = map[string]map[int64]string{}
	}
	a.Names[part] = names
}

// selectNames replaces names in a selector by ids: all of it, or what is between commas. A name
// goes before a number. Errors name the file.
func selectNames(text string, ids map[string]int64, file string) (string, error) {
	if id, ok := ids[strings.TrimSpace(text)]; ok {
		return strconv.FormatInt(id, 10), nil
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		id, ok := ids[part]
		switch {
		case ok:
			parts[i] = strconv.FormatInt(id, 10)
		case strings.Trim(part, "-0123456789.=*") != "":
			return "", fmt.Errorf("%q is neither a number nor a name of %s%s",
				excerpt.Of(part, 80), file, excerpt.DidYouMean(part, slices.Sorted(maps.Keys(ids))))
		}
	}
	return strings.Join(parts, ","), nil
}
