package member

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/cluster"
)

// Kept returns the newest state of its cluster that lies in the directory of a node which does not
// run; what the log of the meta group has beyond it is left aside. Without any it is
// os.ErrNotExist.
func Kept(dir string) (*cluster.Meta, error) {
	names, err := filepath.Glob(filepath.Join(dir, "groups", "0.*", stateName))
	if err != nil {
		return nil, err // dir has a [ in its name that nothing closes
	}
	var newest *cluster.Meta
	var errs []error
	for _, name := range append(names, filepath.Join(dir, "cluster", viewName)) {
		src, err := os.ReadFile(name)
		var s *cluster.State
		switch {
		case err != nil:
		case filepath.Base(name) == stateName:
			s, err = parseKept(src)
		default:
			s, err = cluster.ParseState(src)
		}
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			errs = append(errs, fmt.Errorf("state of the cluster in %s: %w", name, err))
		case newest == nil:
			newest = cluster.NewMeta(s)
		default:
			newest.Advance(s)
		}
	}
	switch {
	case newest != nil: // what is damaged is not needed
		return newest, nil
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	}
	return nil, fmt.Errorf("state of the cluster in %s: %w", dir, os.ErrNotExist)
}

// KeptModules returns where a module may lie in the directory of a node of a cluster.
func KeptModules(dir, file string) []string {
	copies, _ := filepath.Glob(filepath.Join(dir, "groups", "0.*", file)) // as in Kept
	return append(copies, filepath.Join(dir, "cluster", "plugins", file))
}
