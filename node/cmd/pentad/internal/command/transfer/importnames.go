package transfer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// createNamesHint says how an import gives ids to names.
const createNamesHint = "; --create creates it"

// replaceNames puts numbers in place of the names of tenant, device and quantities that flags have
// for all lines. It asks the node only for names.
func (f *importFlags) replaceNames(ctx context.Context, a *app) (err error) {
	names := queryflags.Resolver{Prefix: "--"}
	defer func() {
		if names.DB != nil {
			err = cli.FirstError(err, names.DB.Close())
		}
	}()
	find := func(d record.Dim, text string) (string, error) {
		cid, noTenant := strconv.ParseInt(f.cid, 10, 32)
		if text == "" || strings.ContainsAny(text, "=+") || registry.ReadsAsIDs(text) ||
			d == record.MID && noTenant != nil { // build says what is wrong
			return text, nil
		}
		if names.DB == nil {
			if names.DB, err = a.Connect(ctx); err != nil {
				return "", err
			}
		}
		n, err := names.Find(ctx, d, int32(cid), text)
		if err != nil {
			return "", cli.Usagef("%w; for a column write column=%s", err,
				strings.Trim(text, "{}"))
		}
		return strconv.FormatInt(n, 10), nil
	}
	for _, part := range []struct {
		dim  record.Dim
		text *string
	}{{record.CID, &f.cid}, {record.MOID, &f.moid}, {record.MID, &f.mid}} {
		if *part.text, err = find(part.dim, *part.text); err != nil {
			return err
		}
	}
	for i, value := range f.values {
		pairs := strings.Split(value, ",")
		for k, pair := range pairs {
			text, ok := strings.CutPrefix(pair, "moid=")
			if !ok {
				continue
			}
			if text, err = find(record.MOID, text); err != nil {
				return err
			}
			pairs[k] = "moid=" + text
		}
		f.values[i] = strings.Join(pairs, ",")
	}
	return nil
}

// findNames lets the import reject lines whose names the node does not have.
func (r *mappedImport) findNames(ctx context.Context) {
	r.names = &queryflags.Resolver{DB: r.db, Hint: createNamesHint, Steady: true}
	r.missing = map[string]bool{}
	r.opt.Find = func(d record.Dim, cid int32, text string) (int64, error) {
		id, err := r.names.Find(ctx, d, cid, text)
		if err != nil {
			r.missing[fmt.Sprintf("%s %d %q", d, cid, text)] = true
		}
		return id, err
	}
}

// identifyNames adds the names of a file that the node does not have to the digest of what its
// records come from: their lines are rejected, so that batches differ once they are there. To know
// them it reads the file once more.
func (r *mappedImport) identifyNames(
	ctx context.Context, sum io.Writer, name, shown string,
) (err error) {
	if r.names == nil || r.opt.LookupPath != "" || !r.mapping.UsesLookups() {
		return nil
	}
	clear(r.missing)
	check := r.opt
	check.Dry, check.Strict, check.Rejects, check.Repeats = true, false, nil, false
	check.Send = func(context.Context, *record.Batch) error { return nil }
	im, err := csvimport.New(r.mapping, check)
	if err != nil {
		return cli.Usage(err)
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = cli.FirstError(err, in.Close()) }()
	if err := importMappedFile(ctx, im, r.mapping, r.format, shown, in); !endsEqually(err) {
		return err
	}
	for _, text := range slices.Sorted(maps.Keys(r.missing)) {
		fmt.Fprintf(sum, "no %s\n", text)
	}
	return nil
}
