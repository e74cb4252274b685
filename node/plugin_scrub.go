package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// atRestFirst is the longest wait before the first search, so that nodes that are started
	// together do not read together, and atRestLeast the shortest between two.
	atRestFirst = time.Minute
	atRestLeast = 10 * time.Millisecond
)

// searchAtRest scrubs files that are not of a store: modules, and in a cluster the log files of its
// groups that are not written to any more. A pass takes as long as that of a store, which scrubs
// its own files. After a start it begins at the first file; opening has verified all of them.
func (n *Node) searchAtRest() {
	scrub := n.opt.Store.Scrub
	if scrub.Every() <= 0 {
		return
	}
	next := rand.N(min(scrub.Every()/100, atRestFirst) + 1)
	for {
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-n.open.Done():
			timer.Stop()
			return
		}
		began := time.Now()
		n.verifyAtRest()
		next = max(scrub.Every()-time.Since(began), atRestLeast)
	}
}

func (n *Node) verifyAtRest() {
	pace := n.opt.Store.Scrub.Wait
	mended, err := n.plugins.verify(n.open, func(bytes int64) error {
		return pace(n.open, bytes, math.MaxInt64)
	})
	if m := n.member.Load(); m != nil && err == nil {
		var more []string
		more, err = m.Verify(n.open, pace)
		mended = append(mended, more...)
	}
	for _, text := range mended {
		n.log.Warn("a damaged module was fetched again from another node", "err", text)
	}
	if err != nil && n.open.Err() == nil {
		n.log.Warn("search for damage", "err", err)
	}
}

// verify reads the modules from the disk. One that is damaged is fetched again from the cluster, of
// which it returns what was wrong; where there is none, it is noted as damaged until it is pushed
// again. What is loaded stays in use meanwhile.
func (r *registry) verify(
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
func (r *registry) readModule(digest string) ([]byte, error) {
	wasm, err := os.ReadFile(r.path(digest))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s is missing: %w", r.path(digest), errModule)
	case err != nil:
		return nil, err
	case digestOf(wasm) != digest:
		return nil, fmt.Errorf("%s has another digest: %w", r.path(digest), errModule)
	}
	return wasm, nil
}

// noteModule notes what is wrong with a module, nil for nothing: then what was said of its file is
// over.
func (r *registry) noteModule(digest string, damage error) {
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
