package member

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/node/internal/machine"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
)

// Names in the directory of a stand-alone node that becomes the first node of a cluster:
//
//	adopt/split/GROUP   what each group begins with, made before anything else changes
//	adopt/ADOPTION      one line "crc32c json", written when all of them are whole
//	adopt/store         the stand-alone store, moved here: from then on the node is of the cluster
//	adopt.done          all of that, once the groups have taken what is theirs; it is removed
const (
	adoptDir     = "adopt"
	adoptedDir   = "adopt.done"
	adoptionName = "ADOPTION"
	aloneStore   = "store"
	alonePlugins = "plugins"
	aloneCursors = "cursors"
	aloneOutbox  = "edge"
)

// adoptionFormat of ADOPTION. 1: first.
const adoptionFormat = 1

// adoption describes how the data of a stand-alone node become those of a cluster.
type adoption struct {
	Format    int    `json:"format"`
	Cluster   string `json:"cluster"`     // 32 hex digits, of the token
	Store     string `json:"store"`       // the stand-alone store
	Groups    int    `json:"groups"`      // of the cluster
	NextAcqNs int64  `json:"next_acq_ns"` // no group gives an acq below
	BegunNs   int64  `json:"begun_ns"`
}

var (
	// ErrStandAlone means that a directory holds the data of a stand-alone node, which a cluster
	// that it joins would not serve.
	ErrStandAlone = errors.New("this directory holds the data of a stand-alone node; start it " +
		"with --cluster-init to make it the first node of a new cluster, which then has this " +
		"data, or join with an empty directory")
	// ErrInCluster means that a directory is of a node of a cluster, and was opened without it.
	ErrInCluster = errors.New("this directory is of a node of a cluster; give the cluster's " +
		"token (--cluster-token)")
)

// AdoptOptions of Adopt. All are needed.
type AdoptOptions struct {
	Dir     string // of the node
	Cluster cluster.Config
	Store   store.Options // of the stand-alone node
	Log     *slog.Logger
}

// CheckAlone refuses to open the directory of a node of a cluster as that of a stand-alone node,
// which would serve nothing of it. With locked set the caller has the lock of its store, and what
// an adoption has left that was cut short before it changed anything is removed.
//
// Errors: ErrInCluster.
func CheckAlone(dir string, locked bool) error {
	committed, err := exists(filepath.Join(dir, adoptDir, aloneStore))
	if err != nil {
		return err
	}
	in, err := inCluster(dir)
	if err != nil {
		return err
	}
	if committed || in {
		return fmt.Errorf("open %s: %w", dir, ErrInCluster)
	}
	if locked {
		return os.RemoveAll(filepath.Join(dir, adoptDir))
	}
	return nil
}

// inCluster reports whether a directory has replicas of a cluster, or had.
func inCluster(dir string) (bool, error) {
	if found, err := exists(filepath.Join(dir, "cluster", viewName)); found || err != nil {
		return found, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, "groups"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".") {
			return true, nil
		}
	}
	return false, nil
}

func exists(name string) (bool, error) {
	_, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Adopt prepares a directory for Open. One of a stand-alone node that is to make a cluster becomes
// the directory of its first node, with all that the stand-alone node had: records with their acqs,
// erases, purges, retentions, what is known of writers, plugins, quantities and cursors. A crash
// leaves the stand-alone directory, or one with which the next Adopt and Open go on.
//
// Errors: ErrStandAlone for one that is to join; store.ErrIsCopy, store.ErrShards and others for
// what a cluster cannot have. Nothing has changed then.
// Cost: that of sealing what the log holds; segments are hard links.
func Adopt(ctx context.Context, opt AdoptOptions) error {
	if err := cleanUp(opt.Dir); err != nil {
		return fmt.Errorf("adopt %s: %w", opt.Dir, err)
	}
	committed, err := exists(filepath.Join(opt.Dir, adoptDir, aloneStore))
	if err != nil || committed {
		return err
	}
	there, err := exists(filepath.Join(opt.Dir, aloneStore))
	if err != nil || !there {
		return err
	}
	in, err := inCluster(opt.Dir)
	if err != nil || in {
		return err
	}
	return adopt(ctx, &opt)
}

func adopt(ctx context.Context, opt *AdoptOptions) error {
	s, _, err := store.Open(ctx, opt.Store)
	if errors.Is(err, store.ErrReplicated) {
		return nil // a backup of a group, which Open refuses
	}
	if err != nil {
		return err
	}
	moved := false
	defer func() {
		// Once it has moved, the groups have what it had, and nothing is to be said in its log.
		if closeErr := s.Close(); closeErr != nil && !moved {
			opt.Log.Warn("close the store of the stand-alone node", "err", closeErr)
		}
	}()
	if err := os.RemoveAll(filepath.Join(opt.Dir, adoptDir)); err != nil { // of a crash
		return err
	}
	holds, err := s.HasData(ctx)
	if err != nil {
		return err
	}
	metadata, err := readMetadata(opt.Dir)
	if err != nil {
		return fmt.Errorf("adopt %s: %w", opt.Dir, err)
	}
	switch {
	case !holds && metadata.empty():
		return nil
	case !opt.Cluster.Init:
		return fmt.Errorf("open %s: %w", opt.Dir, ErrStandAlone)
	}
	if err := seedGroups(ctx, opt, s, metadata); err != nil {
		return fmt.Errorf("make %s the first node of a cluster: %w; the directory is as it was, "+
			"and can be started without --cluster-token", opt.Dir, err)
	}
	err = os.Rename(filepath.Join(opt.Dir, aloneStore),
		filepath.Join(opt.Dir, adoptDir, aloneStore))
	if err == nil {
		moved = true
		err = errors.Join(durable.SyncDir(opt.Dir),
			durable.SyncDir(filepath.Join(opt.Dir, adoptDir)))
	}
	return err
}

// seedGroups makes what the groups of the cluster begin with.
func seedGroups(ctx context.Context, opt *AdoptOptions, s *store.Store, metadata *metadata) error {
	if found, err := exists(filepath.Join(opt.Dir, aloneOutbox)); found || err != nil {
		return errors.Join(err, errors.New("it is of an edge node, which ships what it takes to a "+
			"cluster; start that elsewhere"))
	}
	if err := metadata.check(); err != nil {
		return err
	}
	token, err := cluster.LoadToken(opt.Cluster.TokenFile)
	if err != nil {
		return err
	}
	st, err := s.State(ctx)
	if err != nil {
		return err
	}
	plan := adoption{Format: adoptionFormat, Cluster: hex.EncodeToString(token.Cluster[:]),
		Store: st.Store, Groups: opt.Cluster.Groups, BegunNs: time.Now().UnixNano()}
	if plan.Groups == 0 {
		plan.Groups = cluster.DefaultGroups
	}
	opt.Log.Info("this directory of a stand-alone node becomes the first node of a cluster",
		"store", st.Store, "groups", plan.Groups, "count", s.Stats().Rows,
		"plugins", len(metadata.catalog.Plugins), "cursors", len(metadata.cursors))
	dir := filepath.Join(opt.Dir, adoptDir)
	for group := cluster.GroupID(1); int(group) <= plan.Groups; group++ {
		seed := machine.SeedDir(dir, group)
		if err := os.MkdirAll(filepath.Dir(seed), 0o755); err != nil {
			return err
		}
		span := slots.GroupSpan(group, plan.Groups)
		next, err := s.Seed(ctx, seed, identityOf(token, group), span)
		if err != nil {
			return fmt.Errorf("group %d: %w", group, err)
		}
		plan.NextAcqNs = max(plan.NextAcqNs, next)
	}
	text := journal.AppendLine(nil, plan)
	return errors.Join(durable.ReplaceFile(filepath.Join(dir, adoptionName), text),
		durable.SyncDir(opt.Dir))
}

// readAdoption finds an adoption that is to be finished.
func (m *Member) readAdoption() error {
	committed, err := exists(m.path(adoptDir, aloneStore))
	if err != nil || !committed {
		return err
	}
	text, err := os.ReadFile(m.path(adoptDir, adoptionName))
	a := new(adoption)
	if err == nil {
		line, ended := bytes.CutSuffix(text, []byte("\n"))
		if err = journal.ParseLine(line, a); err == nil && !ended {
			err = errors.New("the line does not end")
		}
	}
	switch id := hex.EncodeToString(m.token.Cluster[:]); {
	case err != nil:
		return fmt.Errorf("read %s: %w", m.path(adoptDir, adoptionName), err)
	case a.Format != adoptionFormat:
		return fmt.Errorf("read %s: format %d; this program reads format %d",
			m.path(adoptDir, adoptionName), a.Format, adoptionFormat)
	case a.Cluster != id:
		return fmt.Errorf("%s has begun to become the first node of cluster %s, and the token is "+
			"of %s; give the token that it was started with", m.opt.Dir, a.Cluster, id)
	case len(m.opt.Cluster.Join) > 0:
		return fmt.Errorf("%s has begun to become the first node of a cluster, and cannot join; "+
			"start it with --cluster-init in place of --join", m.opt.Dir)
	}
	m.opt.Cluster.Init, m.opt.Cluster.Groups = true, a.Groups
	m.adoption = a
	return nil
}

// takeSeed gives a replica the state that a split or an adoption has left for it. Where an adoption
// is in progress, a group without it would begin empty.
func (m *Member) takeSeed(group cluster.GroupID, dir string) error {
	if m.adoption == nil || int(group) > m.adoption.Groups {
		return machine.Take(m.path("groups"), group, dir)
	}
	seed, err := exists(machine.SeedDir(m.path(adoptDir), group))
	if err != nil {
		return err
	}
	taken, err := exists(filepath.Join(dir, aloneStore))
	if err != nil {
		return err
	}
	if !seed && !taken {
		return fmt.Errorf("group %d: what it had of the stand-alone node is missing in %s", group,
			m.path(adoptDir))
	}
	return machine.Take(m.opt.Dir, group, dir)
}

// finishAdoption removes what is left of the stand-alone node once all groups have begun with what
// is theirs.
func (m *Member) finishAdoption() {
	if m.adoption == nil {
		return
	}
	for group := cluster.GroupID(1); int(group) <= m.adoption.Groups; group++ {
		if m.machine(group) == nil {
			return
		}
	}
	err := os.Rename(m.path(adoptDir), m.path(adoptedDir))
	if err == nil {
		err = cleanUp(m.opt.Dir)
	}
	if err != nil {
		m.opt.Log.Error("remove what is left of the stand-alone node", "err", err)
		return // until the next beat or start
	}
	m.opt.Log.Info("the cluster has all that the stand-alone node had",
		"groups", m.adoption.Groups, "store", m.adoption.Store)
	m.adoption = nil
}

// cleanUp removes what is left of the stand-alone node after an adoption.
func cleanUp(dir string) error {
	done := filepath.Join(dir, adoptedDir)
	if found, err := exists(done); !found || err != nil {
		return err
	}
	// The new name must last before anything is removed.
	if err := durable.SyncDir(dir); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, alonePlugins)),
		os.RemoveAll(filepath.Join(dir, aloneCursors)), os.RemoveAll(done))
}
