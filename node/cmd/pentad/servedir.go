package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// checkDataDir refuses a directory that has files, and none of a node: one that was mistyped would
// get the files of a node among those of something else. Hidden files and the lost+found of a file
// system do not count.
func checkDataDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var foreign []string
	for _, e := range entries {
		name := e.Name()
		if slices.Contains(nodeFiles, name) {
			return nil
		}
		if !strings.HasPrefix(name, ".") && name != "lost+found" {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	hint := "use an empty directory or a new one"
	switch {
	case slices.Contains(foreign, "MANIFEST"):
		hint = "it is the store of a node; use " + filepath.Dir(filepath.Clean(dir))
	case strings.HasPrefix(foreign[0], "part-"):
		hint = "restore a backup with pentad restore --from " + dir
	case slices.Contains(foreign, demoMarkerName):
		hint = "use " + filepath.Join(dir, "node")
	}
	return cli.Usagef("--dir %s: not the directory of a node: it has %.80q; %s", dir, foreign[0],
		hint)
}

// nodeFiles are names in the directory of a node.
var nodeFiles = []string{"store", "store.tmp", "cluster", "groups", "raft", "adopt", "plugins",
	"cursors", "snapshots", "spill", "edge"}
