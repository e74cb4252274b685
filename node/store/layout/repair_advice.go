package layout

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// replaced is what becomes of a damaged replica; there is nothing to do.
const replaced = "a cluster replaces the replica from the others of its group by itself"

// WayOut adds to the error of a damaged file, with which a store does not open, what can be done.
// An error of something else stays as it is.
func WayOut(err error) error {
	var damage *durable.CorruptError
	if !errors.As(err, &damage) {
		return err
	}
	if advice := Advice(damage.File); advice != "" {
		return fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// Advice says what a file of a store holds, by its name, and what can be done when it is damaged;
// "" for a file that no store has.
func Advice(file string) string {
	const restore = "; pentad repair cannot mend it: move the directory aside and restore a " +
		"backup (pentad restore); " + replaced
	name := filepath.Base(file)
	switch {
	case name == ManifestFile:
		return "it names the segments and the erases, and without it nothing of the store can " +
			"be read" + restore
	case name == WritersFile:
		return "it says which batches of writers are stored, and without it those that are " +
			"sent again would be stored twice" + restore
	case strings.HasSuffix(name, SegmentSuffix):
		return "its records were acknowledged, and are in no log any more" + restore
	case name == LogDir || strings.HasSuffix(name, ".log"):
		return "what it held was acknowledged: take it from a backup or a replica, or let pentad " +
			"repair set it aside; " + replaced
	}
	return ""
}
