package layout

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// TestWayOut: damage of each file of a store names a way out, and only that of a log is repaired.
func TestWayOut(t *testing.T) {
	f := func(file, what, repair string) {
		t.Helper()
		cause := &durable.CorruptError{File: "/d/store/" + file, Offset: 7, Reason: "checksum"}
		text := WayOut(fmt.Errorf("open: %w", cause)).Error()
		for _, want := range []string{cause.Error(), what, repair, "backup",
			"a cluster replaces the replica"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q, want %q", file, text, want)
			}
		}
	}
	const not = "pentad repair cannot mend it"
	f(ManifestFile, "without it nothing of the store can be read", not)
	f(WritersFile, "stored twice", not)
	f(SegmentName(3), "its records were acknowledged", not)
	f("log/0000000001.log", "what it held was acknowledged", "let pentad repair set it aside")
	f(LogDir, "what it held was acknowledged", "let pentad repair set it aside")
	other := &durable.CorruptError{File: "/d/CURSORS"}
	if err := WayOut(other); err != error(other) {
		t.Error(err)
	}
	if err := errors.New("no damage"); WayOut(err) != err {
		t.Error("another error changed")
	}
}
