package registry

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pentad-db/pentad/sdk/wire"
)

// Verify reads the modules from the disk. One that is damaged is fetched again from the cluster, of
// which it returns what was wrong; where there is none, it is noted as damaged until it is pushed
// again. What is loaded stays in use meanwhile.
func (r *Registry) Verify(
	ctx context.Context, read func(bytes int64) error,
) (mended []string, err error) {
	for name, p := range r.clusterState().Plugins {
		for _, v := range p.Versions {
			_, damage := r.readModule(v.SHA256)
			if damage != nil && r.cluster != nil {
				if _, err := r.fetch(ctx, v.SHA256); err == nil {
					mended = append(mended, damage.Error())
					damage = nil
				}
			}
			if damage != nil {
				damage = damagedModule(name, v.SHA256, damage.Error())
			}
			r.noteModule(v.SHA256, damage)
			if err := read(v.Bytes); err != nil {
				return mended, err
			}
		}
	}
	return mended, nil
}

// errModule is of a file that does not hold the module that it is named after.
var errModule = errors.New("not what was uploaded")

// readModule reads the file of a module.
//
// Errors: errModule; of the file system.
func (r *Registry) readModule(digest string) ([]byte, error) {
	wasm, err := os.ReadFile(r.path(digest))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s is missing: %w", r.path(digest), errModule)
	case err != nil:
		return nil, err
	case Digest(wasm) != digest:
		return nil, fmt.Errorf("%s has another digest: %w", r.path(digest), errModule)
	}
	return wasm, nil
}

// noteModule notes what is wrong with a module, nil for nothing: then what was said of its file is
// over.
func (r *Registry) noteModule(digest string, damage error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var known *wire.Error
	switch {
	case damage != nil && r.state.Refers(digest):
		r.broken[digest] = damage
	case errors.As(r.broken[digest], &known) && known.Kind == wire.KindDamaged:
		delete(r.broken, digest)
	}
}

func damagedModule(name, digest, reason string) error {
	return &wire.Error{Kind: wire.KindDamaged, Message: fmt.Sprintf(
		"plugin %s, version %.12s: %s; push the module again, or remove the version", name, digest,
		reason)}
}
