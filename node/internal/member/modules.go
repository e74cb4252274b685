package member

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/replica"
)

// maxModule bounds what is read of a file that should be a module.
const maxModule = 64 << 20

// A meta replica has the module of each version that its state names in a file beside it.

// apply lets the state take in a command. A module that it brings is on disk before the state names
// it; if the state refuses it, sweep finds it.
func (k *metaReplica) apply(command []byte) (cluster.Result, error) {
	cmd, err := cluster.ParseCommand(command)
	if err != nil {
		return cluster.Result{}, err
	}
	if once, ok := cmd.(*cluster.Idempotent); ok {
		cmd = once.Command
	}
	if c, ok := cmd.(*cluster.ChangeCatalog); ok && c.Push != nil {
		if err := k.keep(c.Push.SHA256, c.Module); err != nil {
			return cluster.Result{}, err
		}
	}
	return k.meta.Apply(command)
}

func (k *metaReplica) keep(digest string, module []byte) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	if err := durable.Replace(k.files, digest+catalog.ModuleSuffix, module); err != nil {
		return fmt.Errorf("keep a module: %w", err)
	}
	return nil
}

// module returns a module that is whole.
func (k *metaReplica) module(digest string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(k.dir, digest+catalog.ModuleSuffix))
	if err == nil && !isModule(digest, text) {
		err = fmt.Errorf("module %.12s in %s has another digest", digest, k.dir)
	}
	return text, err
}

// fetchModule gets a module from other nodes that keep the state.
type fetchModule func(ctx context.Context, digest string) ([]byte, error)

// mended is module, and takes one that is damaged or gone from another node.
func (k *metaReplica) mended(ctx context.Context, digest string) ([]byte, error) {
	text, err := k.module(digest)
	if err == nil || k.others == nil || !namedModules(k.meta.Catalog())[digest] {
		return text, err
	}
	text, other := k.others(ctx, digest)
	if other != nil {
		return nil, errors.Join(err, other)
	}
	_ = k.keep(digest, text) // it is of use without, and the next who asks tries again
	return text, nil
}

func isModule(digest string, text []byte) bool {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]) == digest
}

// namedModules returns the digests of the modules that a catalogue names.
func namedModules(s catalog.State) map[string]bool {
	out := map[string]bool{}
	for _, p := range s.Plugins {
		for _, v := range p.Versions {
			out[v.SHA256] = true
		}
	}
	return out
}

// sweep removes the modules that the state does not name any more, and halves of some, unless a
// snapshot may have to give them to others.
func (k *metaReplica) sweep() error {
	if k.given.Load() > 0 {
		return nil
	}
	k.writing.Lock()
	defer k.writing.Unlock()
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return err
	}
	keep := namedModules(k.meta.Catalog())
	var errs []error
	for _, e := range entries {
		digest, isModule := strings.CutSuffix(e.Name(), catalog.ModuleSuffix)
		torn := strings.HasSuffix(e.Name(), catalog.ModuleSuffix+durable.TempSuffix) // by a crash
		if torn || isModule && !keep[digest] {
			errs = append(errs, os.Remove(filepath.Join(k.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// fetchModules gets the modules of a catalogue that are not here.
func (k *metaReplica) fetchModules(
	ctx context.Context, s catalog.State, fetch replica.Fetch,
) error {
	for digest := range maps.Keys(namedModules(s)) {
		if _, err := k.module(digest); err == nil {
			continue
		}
		file, err := fetch(ctx, digest+catalog.ModuleSuffix, 0)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(file, maxModule))
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		if !isModule(digest, text) {
			return fmt.Errorf("module %.12s came with another digest", digest)
		}
		if err := k.keep(digest, text); err != nil {
			return err
		}
	}
	return nil
}
