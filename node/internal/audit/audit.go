// Package audit verifies every file in the directory of a stopped node, and reports damage.
//
// It knows which package reads which file, and nothing of their contents; stores compare their own
// files with each other. Files that no package knows are noted. It starts no goroutines.
package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/edge"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

// Directory reads all files in the directory of a node, or of a store, and below it, and changes
// nothing. Compiled modules in a cache are left out: they are made again.
//
// Errors: layout.ErrLocked when a process has a store open, layout.ErrNoStore when there is nothing
// that a node writes, ctx.Err(), those of the file system, and *formats.Error or
// cluster.ErrOtherRules of a file that another version of the program wrote. Damage is in the
// report.
func Directory(
	ctx context.Context, dir string, opt check.Options,
) (api.CheckReport, error) {
	a := &audit{ctx: ctx, opt: opt}
	began := time.Now()
	err := a.directory(dir)
	if err == nil && !a.found {
		err = fmt.Errorf("%s: %w", dir, layout.ErrNoStore)
	}
	a.report.TookNs = int64(time.Since(began))
	return a.report, err
}

// File reads one file of a node, also of one that runs, and changes nothing.
//
// Errors: as of [check.File].
func File(
	ctx context.Context, path string, opt check.Options,
) (api.CheckReport, error) {
	a := &audit{ctx: ctx, opt: opt}
	known, err := a.file(path)
	if err == nil && !known {
		return check.File(ctx, path, opt)
	}
	return a.report, err
}

// audit is one run.
type audit struct {
	ctx    context.Context
	opt    check.Options
	report api.CheckReport
	found  bool // something that a node writes
}

func (a *audit) damaged(file string, offset int64, reason string) {
	d := api.Damage{File: file, Offset: offset, Reason: reason}
	a.report.Damages++
	a.report.Damage = append(a.report.Damage, d)
	if a.opt.Damage != nil {
		a.opt.Damage(d)
	}
}

// all takes what a package found.
func (a *audit) all(damage []*durable.CorruptError) {
	for _, d := range damage {
		a.damaged(d.File, d.Offset, d.Reason)
	}
}

// read accounts for the bytes of a file.
func (a *audit) read(size int64) error {
	a.found = true
	a.report.Bytes += size
	if a.opt.Progress != nil {
		a.opt.Progress(&a.report)
	}
	return a.ctx.Err()
}

func (a *audit) directory(dir string) error {
	if isStore(dir) {
		return a.store(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := archive.CheckFinished(filepath.Join(dir, "store")); err != nil {
		a.found = true
		a.damaged(filepath.Join(dir, "store.tmp"), 0, archive.ErrUnfinished.Error())
	}
	base := filepath.Base(dir)
	if base == "raft" {
		return a.log(dir)
	}
	switch base {
	case "plugins":
		err = a.modules(dir)
	case "groups":
		a.hasLog(filepath.Dir(dir), entries)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case err != nil:
			return err
		case e.IsDir() && base == "plugins" && e.Name() == "cache":
		case e.IsDir():
			err = a.directory(path)
		case e.Name() == "LOCK", base == "plugins" && (e.Name() == catalog.Name ||
			filepath.Ext(path) == catalog.ModuleSuffix): // read with the directory
		default:
			err = a.one(path)
		}
	}
	return err
}

// isStore reports whether a directory is that of a store, or was meant to be.
func isStore(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "MANIFEST"))
	return err == nil || filepath.Base(dir) == "store"
}

func (a *audit) store(dir string) error {
	a.found = true
	report, err := check.Directory(a.ctx, dir, a.opt)
	r := &a.report
	r.Segments += report.Segments
	r.Blocks += report.Blocks
	r.Rows += report.Rows
	r.LogFiles += report.LogFiles
	r.LogAppends += report.LogAppends
	r.LogRows += report.LogRows
	r.Bytes += report.Bytes
	r.Damages += report.Damages
	r.Damage = slices.Concat(r.Damage, report.Damage)
	r.Notes = slices.Concat(r.Notes, report.Notes)
	return err
}

// log reads the log that the groups of a node share.
func (a *audit) log(dir string) error {
	damage, torn, err := replica.CheckLog(dir, a.read)
	for _, d := range damage {
		a.damaged(d.File, d.Offset, d.Reason)
	}
	if torn != "" {
		a.report.Notes = append(a.report.Notes, torn)
	}
	return err
}

// hasLog looks whether a node with replicas has files of the log that these share. A snapshot has
// no directory of it; where there are some files, these know of others.
func (a *audit) hasLog(dir string, replicas []os.DirEntry) {
	log := filepath.Join(dir, "raft")
	files, err := os.ReadDir(log)
	if err == nil && len(files) == 0 && len(replicas) > 0 {
		a.damaged(log, 0, "the log of the groups is missing: there are replicas in "+
			filepath.Join(dir, "groups"))
	}
}

// modules reads a directory of modules: with a catalogue, or of copies of the cluster's.
func (a *audit) modules(dir string) error {
	var damage []*durable.CorruptError
	var err error
	if filepath.Base(filepath.Dir(dir)) == "cluster" {
		damage, err = catalog.CheckModules(dir, nil, a.read)
	} else {
		damage, err = catalog.Check(dir, a.read)
	}
	a.all(damage)
	return err
}

// one reads a file, or notes that no package knows it.
func (a *audit) one(path string) error {
	known, err := a.file(path)
	if err == nil && !known {
		note := path + ": not checked: it is not a file that a node writes"
		if strings.HasSuffix(path, ".tmp") || strings.HasSuffix(path, ".new") {
			note = path + ": a leftover, which the next start removes or writes over"
		}
		a.report.Notes = append(a.report.Notes, note)
	}
	return err
}

// file verifies a file other than stores, modules and logs; known reports whether it is one.
func (a *audit) file(path string) (known bool, err error) {
	dir := filepath.Dir(path)
	var size int64
	var bad error
	switch filepath.Base(path) {
	case catalog.Name:
		damage, err := catalog.Check(dir, a.read)
		a.all(damage)
		return true, err
	case cursors.Name:
		var damage []*durable.CorruptError
		damage, size, err = cursors.CheckFile(dir)
		a.all(damage)
	case "OUTBOX":
		var damage *durable.CorruptError
		if damage, size, err = edge.CheckOutbox(filepath.Dir(dir)); damage != nil {
			a.all([]*durable.CorruptError{damage})
		}
	case "NODE":
		size, bad = cluster.CheckSelf(dir)
	case "VIEW":
		if size, bad = member.CheckView(dir); errors.Is(bad, cluster.ErrOtherRules) {
			bad = fmt.Errorf("%s: %w", path, bad)
		}
	case "STATE":
		return true, a.state(path)
	default:
		if filepath.Ext(path) == catalog.ModuleSuffix {
			return true, a.module(path)
		}
		return false, nil
	}
	switch pathError := new(os.PathError); {
	case errors.As(bad, &pathError), ofOtherVersion(bad):
		return true, bad
	case bad != nil:
		a.damaged(path, 0, bad.Error())
	}
	if err == nil {
		err = a.read(size)
	}
	return true, err
}

// ofOtherVersion reports whether a file is whole, and another version of the program reads it.
func ofOtherVersion(err error) bool {
	return formats.Is(err) || errors.Is(err, cluster.ErrOtherRules)
}

// state reads the state of the cluster in a replica of the meta group, and looks for its modules.
func (a *audit) state(path string) error {
	dir := filepath.Dir(path)
	modules, size, bad := member.CheckState(dir)
	switch pathError := new(os.PathError); {
	case errors.As(bad, &pathError):
		return bad
	case ofOtherVersion(bad):
		return fmt.Errorf("%s: %w", path, bad)
	case bad != nil:
		a.damaged(path, 0, bad.Error())
	}
	for name := range modules {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			a.damaged(filepath.Join(dir, name), 0, "the module is missing; "+path+" names it")
		}
	}
	return a.read(size)
}

func (a *audit) module(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if damage := catalog.CheckModule(path, text); damage != nil {
		a.all([]*durable.CorruptError{damage})
	}
	return a.read(int64(len(text)))
}
