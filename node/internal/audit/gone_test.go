package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
)

// A node of a cluster without the log that its replicas share is damaged.
func TestAMissingGroupsLogIsNamed(t *testing.T) {
	dir := t.TempDir()
	s, _, err := store.Open(t.Context(),
		store.Options{Dir: filepath.Join(dir, "groups", "1.2", "store")})
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "raft"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	report, err := Directory(t.Context(), dir, check.Options{})
	if err != nil || report.Damages != 1 || report.Damage[0].File != filepath.Join(dir, "raft") {
		t.Errorf("%+v, %v", report, err)
	}
}

// What an interrupted restore left is named, as it is no node without records.
func TestAnUnfinishedRestoreIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "store.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	report, err := Directory(t.Context(), dir, check.Options{})
	if err != nil || report.Damages != 1 || !strings.Contains(report.Damage[0].Reason, "restore") {
		t.Errorf("%+v, %v", report, err)
	}
}
