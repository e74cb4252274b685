package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/wire"
)

// clusterRestore makes an empty cluster of the backups of another one's groups.
type clusterRestore struct {
	app       *app
	from, dir string
	groups    []int
	done      int // of groups
	target    *client.Client
	cursors   map[string]client.Cursor // the least of each
}

func (a *app) restoreCluster(ctx context.Context, from, dir, into string) error {
	r := &clusterRestore{app: a, from: from, dir: dir, cursors: map[string]client.Cursor{}}
	err := r.run(ctx, into)
	return cli.Stopped(ctx, err, r.left())
}

// left says what there is of a restore that was stopped.
func (r *clusterRestore) left() string {
	text := "nothing was restored"
	if r.done > 0 {
		text = fmt.Sprintf("%d of %d groups restored", r.done, len(r.groups))
	}
	return text + "; run the same command to continue"
}

func (r *clusterRestore) run(ctx context.Context, into string) (err error) {
	a, from, dir := r.app, r.from, r.dir
	if r.groups, err = groupsOfBackup(from); err != nil {
		return err
	}
	if r.target, err = client.Dial(ctx, into); err != nil {
		return err
	}
	defer r.target.Close()
	if err := r.checkGroups(ctx, into); err != nil {
		return err
	}
	if err := r.claim(); err != nil {
		return err
	}
	w, err := a.Writer(false, cli.Right("group"), cli.Right("records"), cli.Right("events"),
		cli.Left("until_acq"), cli.Right("took"))
	if err != nil {
		return err
	}
	for _, g := range r.groups {
		if err = r.group(ctx, g, w); err != nil {
			err = fmt.Errorf("group %d: %w", g, err)
			break
		}
		r.done++
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return cli.CopyError(err)
	}
	for _, c := range r.cursors {
		if _, err := r.target.MoveCursor(ctx, c, true); err != nil {
			return fmt.Errorf("cursor %s: %w", c.Name, err)
		}
	}
	if err := r.target.PromoteCopy(ctx); err != nil {
		return err
	}
	a.Note("the cluster accepts records now")
	return os.RemoveAll(dir)
}

// claimed is a file that says that a directory is for a restore alone, which removes it in the end.
const claimed = "RESTORE"

// claim makes the directory that groups are restored in, or finds that of a run that was
// interrupted.
func (r *clusterRestore) claim() error {
	name := filepath.Join(r.dir, claimed)
	if _, err := os.Lstat(r.dir); err == nil {
		if _, err := os.Lstat(name); err != nil {
			return fmt.Errorf("%s: %w", r.dir, store.ErrExists)
		}
		return nil
	}
	return errors.Join(os.MkdirAll(r.dir, 0o755), os.WriteFile(name, nil, 0o644))
}

// groupsOfBackup lists the groups that a directory has backups of.
func groupsOfBackup(dir string) (groups []int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "group-")
		if g, err := strconv.Atoi(number); ok && err == nil {
			groups = append(groups, g)
		}
	}
	if groups == nil {
		return nil,
			cli.Usagef("--from %s: not the backup of a cluster, no group-GROUP in it; leave out "+
				"--into", dir)
	}
	slices.Sort(groups)
	return groups, nil
}

// checkGroups compares the groups of the backup and of the cluster before anything is copied.
func (r *clusterRestore) checkGroups(ctx context.Context, into string) error {
	groups, err := r.target.ClusterGroups(ctx)
	if err != nil {
		return err
	}
	var own []int
	for i := range groups {
		if g := groups[i].Group; g != 0 { // which is the cluster's own
			own = append(own, int(g))
		}
	}
	slices.Sort(own)
	if slices.Equal(own, r.groups) {
		return nil
	}
	for _, g := range own {
		if !slices.Contains(r.groups, g) {
			return fmt.Errorf("--from %s: group-%d is missing, which the cluster at %s has; "+
				"back up nodes that together have all groups, or create a cluster of %d "+
				"groups", r.from, g, into, len(r.groups))
		}
	}
	return fmt.Errorf("cluster at %s: it has %d groups, the backup has %d, up to %d; create a "+
		"cluster with the same number, or restore a split group with pentad sync push "+
		"--restamp", into, len(own), len(r.groups), r.groups[len(r.groups)-1])
}

// group copies the backup of a group into the group of its number.
func (r *clusterRestore) group(ctx context.Context, group int, w *output.Writer) (err error) {
	began := r.app.Now()
	dir, err := r.nodeOf(ctx, group)
	if err != nil {
		return err
	}
	n, err := node.Open(ctx, node.Options{Dir: dir, Listen: "127.0.0.1:0",
		Logger: r.app.LoggerAt(slog.LevelWarn)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.app.CloseNode(n)) }()
	source, err := client.Dial(ctx, n.Addr().String())
	if err != nil {
		return err
	}
	defer source.Close()
	report, err := nodesync.Copy(ctx, source, r.target.OfGroup(group), nodesync.Options{})
	if err != nil {
		return err
	}
	if group == r.groups[0] {
		if err := r.catalogue(ctx, source, dir); err != nil {
			return err
		}
	}
	all, err := source.Cursors(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if least, ok := r.cursors[c.Name]; !ok || c.AcqNs < least.AcqNs {
			r.cursors[c.Name] = c
		}
	}
	return w.Row(output.Int(group), output.Count(report.Rows), output.Count(report.Events),
		output.Time(report.ToNs), output.Span(r.app.Now().Sub(began)))
}

// nodeOf restores the backup of a group, if that is not done yet.
func (r *clusterRestore) nodeOf(ctx context.Context, group int) (dir string, err error) {
	name := fmt.Sprintf("group-%d", group)
	dir = filepath.Join(r.dir, name)
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	begun := dir + ".begun"
	if err := os.RemoveAll(begun); err != nil {
		return "", err
	}
	_, err = r.app.restoreDir(ctx, filepath.Join(r.from, name), begun, archive.RestoreOptions{})
	if err != nil {
		return "", err
	}
	return dir, os.Rename(begun, dir)
}

// catalogue gives the cluster the plugins and quantities of a node.
func (r *clusterRestore) catalogue(ctx context.Context, from *client.Client, dir string) error {
	plugins, err := from.Plugins(ctx)
	if err != nil {
		return err
	}
	for i := range plugins {
		if plugins[i].Standard {
			continue
		}
		if err := r.plugin(ctx, from, &plugins[i], filepath.Join(dir, pluginsDir)); err != nil {
			return fmt.Errorf("plugin %s: %w", plugins[i].Name, err)
		}
	}
	quantities, err := from.Quantities(ctx)
	if err != nil {
		return err
	}
	for _, q := range quantities {
		if err := r.target.SetQuantity(ctx, q); err != nil {
			return fmt.Errorf("quantity %d: %w", q.MOID, err)
		}
	}
	return nil
}

// plugin uploads the versions of a plugin in the order in which they came.
func (r *clusterRestore) plugin(
	ctx context.Context, from *client.Client, current *client.PluginInfo, modules string,
) error {
	details, err := from.Plugin(ctx, current.Name)
	if err != nil {
		return err
	}
	versions := slices.Clone(details.History)
	slices.SortStableFunc(versions, func(x, y client.PluginInfo) int {
		return cmp.Compare(x.UploadedNs, y.UploadedNs)
	})
	for i := range versions {
		v := &versions[i]
		if v.Damage != "" {
			r.app.Note("omitted plugin %s: %s", v.Ref(), v.Damage)
			continue
		}
		wasm, err := os.ReadFile(filepath.Join(modules, v.SHA256+catalog.ModuleSuffix))
		if err != nil {
			return err
		}
		_, err = r.target.PushVersion(ctx, client.PluginPush{Name: v.Name, Owner: v.Owner,
			Description: v.Description, Wasm: wasm})
		if err != nil {
			return err
		}
	}
	_, err = r.target.PromotePlugin(ctx, current.Ref())
	var answer *wire.Error
	if errors.As(err, &answer) && answer.Kind == wire.KindNotFound {
		return nil // it is damaged, and was left out
	}
	return err
}
