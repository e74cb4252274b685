package member

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/durable"
)

// metadata is what a stand-alone node keeps in addition to records: plugins, quantities and
// cursors.
type metadata struct {
	dir     string // of the modules
	catalog catalog.State
	cursors []cursors.Cursor
	damage  []string
}

// readMetadata reads that of the stand-alone node in a directory. What is not there is empty.
func readMetadata(dir string) (*metadata, error) {
	t := &metadata{dir: filepath.Join(dir, alonePlugins)}
	if found, err := exists(t.dir); err != nil {
		return nil, err
	} else if found {
		f, err := catalog.Open(t.dir)
		if err != nil {
			return nil, err
		}
		t.catalog, t.damage = f.State, f.Damage
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	dir = filepath.Join(dir, aloneCursors)
	if found, err := exists(dir); !found || err != nil {
		return t, err
	}
	f, err := cursors.Open(dir)
	if err != nil {
		return nil, err
	}
	t.cursors, t.damage = f.List(), append(t.damage, f.Damage()...)
	return t, f.Close()
}

func (t *metadata) empty() bool {
	return len(t.catalog.Plugins)+len(t.catalog.Quantities)+len(t.cursors)+len(t.damage) == 0
}

// check refuses what would be lost on the way.
func (t *metadata) check() error {
	if len(t.damage) > 0 {
		return fmt.Errorf("its metadata is damaged: %s; move the directory of that file away "+
			"to go on without its plugins and quantities, or cursors",
			strings.Join(t.damage, "; "))
	}
	for _, c := range t.catalog.Changes() {
		if c.Push == nil {
			continue
		}
		if _, err := t.module(c.Push); err != nil {
			return fmt.Errorf("%w; remove that version from the stand-alone node first", err)
		}
	}
	return nil
}

// module reads the module of a version.
func (t *metadata) module(p *catalog.Push) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(t.dir, p.SHA256+catalog.ModuleSuffix))
	if err == nil && !isModule(p.SHA256, text) {
		err = errors.New("the module has another digest")
	}
	if err != nil {
		return nil, fmt.Errorf("plugin %s, version %.12s: %w", p.Name, p.SHA256, err)
	}
	return text, nil
}

// adoptMeta makes the state that the meta group of an adopting cluster begins with: the cluster is
// created, and has the metadata of the stand-alone node. It is made as of entry 1 of the group's
// log, before which there is none; before that is created it may be made any number of times.
func (m *Member) adoptMeta(id uint64) error {
	t, err := readMetadata(m.opt.Dir)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return err
	}
	dir := m.path("groups", dirOf(cluster.MetaGroup, id))
	next := m.path(adoptDir, "meta")
	err = errors.Join(os.RemoveAll(next), os.RemoveAll(dir), os.MkdirAll(m.path("groups"), 0o755),
		os.MkdirAll(next, 0o755))
	if err != nil {
		return err
	}
	s := cluster.NewState()
	k := &metaReplica{dir: next, files: durable.Dir(next), changed: func() {}}
	if err := m.putMetadata(k, s, t); err != nil {
		return fmt.Errorf("state of the new cluster: %w", err)
	}
	k.meta = cluster.NewMeta(s)
	k.applied.Store(1)
	if err := durable.ReplaceFile(filepath.Join(next, stateName), k.encode()); err != nil {
		return err
	}
	if err := os.Rename(next, dir); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(m.path("groups")), durable.SyncDir(m.path(adoptDir)))
}

// putMetadata applies the commands that make the cluster, with the modules that they bring.
func (m *Member) putMetadata(k *metaReplica, s *cluster.State, t *metadata) error {
	all := []cluster.Command{&cluster.Create{Cluster: m.token.Cluster,
		Groups: uint32(m.opt.Cluster.Groups), Replicas: uint32(m.opt.Cluster.Replicas),
		Feature: m.features.First, First: m.node}}
	for _, c := range t.catalog.Changes() {
		change := &cluster.ChangeCatalog{Change: c}
		if c.Push != nil {
			var err error
			if change.Module, err = t.module(c.Push); err != nil {
				return err
			}
			if err := k.keep(c.Push.SHA256, change.Module); err != nil {
				return err
			}
		}
		all = append(all, change)
	}
	for _, c := range t.cursors {
		all = append(all, &cluster.CommitCursor{Cursor: c})
	}
	for _, c := range all {
		data, err := cluster.AppendCommand(nil, c)
		if err != nil {
			return err
		}
		result, err := s.Apply(data)
		if err = cmp.Or(err, result.Err); err != nil {
			return err
		}
	}
	return nil
}
