package member

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
)

// ReadState returns the newest state of its cluster that lies in the directory of a node which does
// not run; what the log of the meta group has beyond it is left aside. Without any it is
// os.ErrNotExist.
func ReadState(dir string) (*cluster.Meta, error) {
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
			s, err = parseStateFile(src)
		default:
			s, err = cluster.ParseState(src)
		}
		if s != nil && err == nil {
			err = s.Suits(cluster.Supported())
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

// supportedState reads a state of a feature level that this program runs.
func supportedState(src []byte) (*cluster.State, error) {
	s, err := cluster.ParseState(src)
	if err == nil {
		err = s.Suits(cluster.Supported())
	}
	return s, err
}

// CheckState reads the state of the cluster in the directory of a replica of the meta group that
// does not run, and returns the names of the modules that must be beside it, and how large it is.
func CheckState(dir string) (modules map[string]bool, size int64, err error) {
	src, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return nil, 0, err
	}
	s, err := parseStateFile(src)
	if err == nil {
		err = s.Suits(cluster.Supported())
	}
	if err != nil {
		return nil, int64(len(src)), err
	}
	modules = map[string]bool{}
	for digest := range namedModules(s.Catalog()) {
		modules[digest+catalog.ModuleSuffix] = true
	}
	return modules, int64(len(src)), nil
}

// CheckView reads the last view that a node noted, and returns how large it is.
func CheckView(dir string) (size int64, err error) {
	src, err := os.ReadFile(filepath.Join(dir, viewName))
	if err == nil {
		_, err = supportedState(src)
	}
	return int64(len(src)), err
}

// ModulePaths returns where a module may lie in the directory of a node of a cluster.
func ModulePaths(dir, file string) []string {
	copies, _ := filepath.Glob(filepath.Join(dir, "groups", "0.*", file)) // as in Kept
	return append(copies, filepath.Join(dir, "cluster", "plugins", file))
}
