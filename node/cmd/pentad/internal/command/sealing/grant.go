package sealing

import (
	"context"
	"crypto/hpke"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

func (a *app) grantCommand() *cobra.Command {
	c := cli.Group("grant", "Make sums of windows readable for an analyst",
		`  pentad seal grant key anna
  pentad seal grant create hours --schema granted.json --cid 1 --mid 7..99 --moid 10 \
      --field energy --every 1h --min-count 5 --token-moid 11
  pentad seal grant publish hours --cap 2026-11
  pentad seal grant share hours --to anna.pub --cap 2026-11 -f anna.share
  pentad seal grant read anna.share --key anna.key`,
		a.grantCreateCommand(), a.grantKeyCommand(), a.grantPublishCommand(),
		a.grantShareCommand(), a.grantReadCommand())
	c.Long = `Give an analyst the sums of windows of capture time, and nothing finer: no key of a reading
leaves this machine.

The owner of the keys creates a grant, publishes a token for each window, and shares the keys of
some windows, encrypted for the public key of the analyst. The analyst reads sums of the node with
these keys and the tokens. A node that has the tokens learns nothing of values.

Single readings could be told by the difference of two sums. So a window with fewer readings than
the least number is kept back, and also one that late readings or corrections changed by fewer than
that since it was published; publish windows when no more is to come. Grants are not compared with
each other: one over all devices, and one over all but one, tell the readings of that one.`
	return c
}

// grantFiles are the keys and a grant, which is stored next to them.
type grantFiles struct{ keyFiles }

func (f *grantFiles) path(name string) (string, error) {
	if name == "" || name != filepath.Base(name) {
		return "", cli.Usagef("%q: the name of a grant has no folder; it is next to the keys", name)
	}
	return filepath.Join(filepath.Dir(f.Keys), name+".grant"), nil
}

func (f *grantFiles) openGrant(name string) (*seal.Grant, error) {
	path, err := f.path(name)
	if err != nil {
		return nil, err
	}
	g, err := seal.OpenGrant(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("there is no grant %s; make it with pentad seal grant create %s",
			path, name)
	}
	return g, err
}

// createFlags say what a grant is of.
type createFlags struct {
	grantFiles
	spec  seal.GrantSpec
	mids  string
	every string
}

func (a *app) grantCreateCommand() *cobra.Command {
	var f createFlags
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a grant",
		Long: `Create a grant: a file NAME.grant next to the keys, which only its owner may read. It has
the keys of all windows, and notes each token that is made, so that none is made twice: keep it as
the keys are kept, and never restore an older copy. The schema needs a MAC, and for several devices
one of scope tenant.`,
		Args: cli.Arguments(1, 1, "the name of the grant"),
		Example: `  pentad seal grant create days --schema granted.json --cid 1 --mid 7..99 --moid 10 \
      --field energy --every 1d --min-count 5 --token-moid 12`,
		RunE: func(_ *cobra.Command, args []string) error { return a.grantCreate(&f, args[0]) },
	}
	f.add(c)
	flags := c.Flags()
	addTenant(c, &f.spec.CID)
	flags.StringVar(&f.mids, "mid", "", "devices that are added up: "+selector.Syntax)
	flags.Int32Var(&f.spec.MOID, "moid", 0, "quantity of the readings, an integer")
	flags.StringVar(&f.spec.Field, "field", "", "field that is added up")
	flags.StringVar(&f.every, "every", "", "length of windows, which begin in UTC, e.g. 1h or 1d")
	flags.Uint64Var(&f.spec.MinCount, "min-count", 5, "least number of readings of a window")
	flags.Int32Var(&f.spec.TokenMOID, "token-moid", 0,
		"quantity that tokens are stored as, which has no other records")
	for _, name := range []string{"mid", "moid", "field", "every", "token-moid"} {
		_ = c.MarkFlagRequired(name) // it is there
	}
	return c
}

func (a *app) grantCreate(f *createFlags, name string) error {
	s, err := f.Open()
	if err != nil {
		return err
	}
	f.spec.Schema = s.Schema.Definition()
	mids, err := selector.Parse(record.MID, f.mids, a.Now())
	if err != nil {
		return cli.Usagef("--mid: %w", err)
	}
	if mids == nil {
		return cli.Usagef("--mid *: name the devices, e.g. 1..=1000; later ones are not granted")
	}
	for _, r := range mids {
		f.spec.MIDs = append(f.spec.MIDs, [2]int64{r.From, r.To - 1})
	}
	every, err := timeparse.Duration(f.every)
	if err != nil {
		return cli.Usagef("--every: %w", err)
	}
	f.spec.WindowNs = int64(every)
	path, err := f.path(name)
	if err != nil {
		return err
	}
	g, err := seal.CreateGrant(path, f.spec)
	if err != nil {
		return cli.Usage(err)
	}
	return a.One([]output.Column{cli.Left("grant"), cli.Right("id"), cli.Left("file")},
		output.Text(name), output.Int(g.Spec().ID), output.Text(path))
}

func (a *app) grantKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "key NAME",
		Short: "Make the key of an analyst",
		Long: `Make a key for an analyst: NAME.key, which only its owner may read, and NAME.pub, which the
owner of a grant needs to share windows.`,
		Args:    cli.Arguments(1, 1, "the name of the files"),
		Example: "  pentad seal grant key ben",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := seal.ShareKEM().GenerateKey()
			if err != nil {
				return err
			}
			secret, err := key.Bytes()
			if err != nil {
				return err
			}
			private, public := args[0]+".key", args[0]+".pub"
			if err := writeNew(private, secret, 0o600); err != nil {
				return err
			}
			if err := writeNew(public, key.PublicKey().Bytes(), 0o644); err != nil {
				return err
			}
			return a.One([]output.Column{cli.Left("key"), cli.Left("public")},
				output.Text(private), output.Text(public))
		},
	}
}

// writeNew writes a file that is not there yet, durably.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return cli.Usagef("%s is there already", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (a *app) grantShareCommand() *cobra.Command {
	var f grantFiles
	var to, caps, file string
	c := &cobra.Command{
		Use:   "share NAME",
		Short: "Make a file with the keys of windows for an analyst",
		Long: `Make a file with the keys of the windows that begin in a range of capture times, encrypted for
the public key of an analyst. A share cannot be taken back.`,
		Args:    cli.Arguments(1, 1, "the name of the grant"),
		Example: "  pentad seal grant share hours --to ben.pub --cap 2026-11-07 -f ben.share",
		RunE: func(_ *cobra.Command, args []string) error {
			g, err := f.openGrant(args[0])
			if err != nil {
				return err
			}
			first, last, err := windowsOf(g, caps, a.Now())
			if err != nil {
				return err
			}
			public, err := os.ReadFile(to)
			if err != nil {
				return fmt.Errorf("read the public key: %w", err)
			}
			key, err := seal.ShareKEM().NewPublicKey(public)
			if err != nil {
				return cli.Usagef("--to %s: not the public key of an analyst; pentad seal grant "+
					"key makes one", to)
			}
			blob, err := g.Share(first, last, key)
			if err != nil {
				return err
			}
			if err := writeNew(file, blob, 0o644); err != nil {
				return err
			}
			return a.One([]output.Column{cli.Left("file"), cli.Right("windows")},
				output.Text(file), output.Count(last-first+1))
		},
	}
	f.AddKeys(c)
	c.Flags().StringVar(&to, "to", "", "file with the public key of the analyst")
	c.Flags().StringVar(&caps, "cap", "",
		"range of capture times in which windows begin, e.g. 2026-11")
	c.Flags().StringVarP(&file, "file", "f", "", "file to write")
	for _, name := range []string{"to", "cap", "file"} {
		_ = c.MarkFlagRequired(name) // it is there
	}
	return c
}

// windowsOf returns the first and the last window that begins in a range of capture times.
func windowsOf(g *seal.Grant, caps string, now time.Time) (first, last uint64, err error) {
	set, err := selector.Parse(record.Cap, caps, now)
	if err != nil {
		return 0, 0, cli.Usagef("--cap: %w", err)
	}
	if len(set) != 1 || set[0].From == math.MinInt64 || set[0].To == math.MaxInt64 {
		return 0, 0, cli.Usagef("--cap %s: name one range, with begin and end", caps)
	}
	spec := g.Spec()
	if first, err = spec.Window(set[0].From + spec.WindowNs - 1); err == nil {
		last, err = spec.Window(set[0].To - 1)
	}
	if err == nil && last < first {
		err = fmt.Errorf("--cap %s: no window begins there", caps)
	}
	if err != nil {
		return 0, 0, cli.Usage(err)
	}
	return first, last, nil
}

// decodePrivate reads the key of an analyst.
func decodePrivate(path string) (hpke.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, cli.Usagef("--key %s: others may read the file (mode %04o); type: "+
			"chmod 600 %[1]s", path, mode)
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	key, err := seal.ShareKEM().NewPrivateKey(secret)
	if err != nil { // it may quote the key
		return nil, cli.Usagef("--key %s: not the key of an analyst; pentad seal grant key makes "+
			"one", path)
	}
	return key, nil
}

// grantSums has the node add up the windows of a grant in one state, by their begin.
func grantSums(
	ctx context.Context, db *client.Client, spec *seal.GrantSpec, schema *seal.Schema,
	caps record.RangeSet, asOfNs int64,
) (map[uint64]*seal.Partial, error) {
	q := &record.Query{View: record.ViewAsOf, AsOfAcqNs: asOfNs,
		GroupBy: record.GroupBy{CapBucketNs: spec.WindowNs}}
	q.Box[record.CID] = record.RangeSet{record.At(int64(spec.CID))}
	q.Box[record.MOID] = record.RangeSet{record.At(int64(spec.MOID))}
	q.Box[record.Cap] = caps
	for _, r := range spec.MIDs {
		q.Box[record.MID] = append(q.Box[record.MID], record.Range{From: r[0], To: r[1] + 1})
	}
	groups, err := new(sumFlags).ask(ctx, db, schema, q, asOfNs)
	if err != nil {
		return nil, err
	}
	all := map[uint64]*seal.Partial{}
	for i := range groups {
		window, err := spec.Window(groups[i].CapNs)
		if err != nil {
			return nil, err
		}
		if all[window], err = seal.ParsePartial(schema, groups[i].Result); err != nil {
			return nil, fmt.Errorf("sum of the node: %w", err)
		}
	}
	return all, nil
}

// grantTokens returns the newest token of each window that a node has.
func grantTokens(
	ctx context.Context, db *client.Client, spec *seal.GrantSpec, caps record.RangeSet,
) (map[uint64][]byte, error) {
	q := &record.Query{View: record.ViewLatest}
	q.Box[record.CID] = record.RangeSet{record.At(int64(spec.CID))}
	q.Box[record.MID] = record.RangeSet{record.At(spec.ID)}
	q.Box[record.MOID] = record.RangeSet{record.At(int64(spec.TokenMOID))}
	q.Box[record.Cap] = caps
	if err := q.Normalize(); err != nil {
		return nil, err
	}
	all := map[uint64][]byte{}
	_, err := db.Scan(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			if b.Tomb(i) {
				continue
			}
			window, _, err := seal.TokenState(b.Payload(i))
			if err != nil {
				return fmt.Errorf("moid %d, cap %s: %w", b.MOID[i], record.FormatNs(b.CapNs[i]),
					err)
			}
			if begin := int64(window) * spec.WindowNs; begin != b.CapNs[i] {
				return fmt.Errorf("the token at cap %s is of another window",
					record.FormatNs(b.CapNs[i]))
			}
			all[window] = append([]byte(nil), b.Payload(i)...)
		}
		return nil
	})
	return all, err
}
