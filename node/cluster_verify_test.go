package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// keptGroups backs up each replica of a snapshot into a directory of its group.
func keptGroups(t *testing.T, info api.Snapshot, to string) {
	t.Helper()
	for _, g := range info.Groups {
		dir := filepath.Join(info.Dir, "groups", fmt.Sprint(g.Group), "store")
		s, _, err := store.OpenSnapshot(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		part, err := archive.Backup(t.Context(), s, filepath.Join(to, fmt.Sprint(g.Group)),
			archive.BackupOptions{UntilAcqNs: g.AcqNs})
		if err != nil || part == nil {
			t.Fatalf("group %d: %+v, %v", g.Group, part, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Snapshots of replicas are backed up group by group, and a backup is continued from another
// replica: what is restored of all groups is what the cluster holds.
func TestAClusterIsVerifiedAndKept(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 2)
	to := t.TempDir()
	for i, n := range c.nodes[:2] {
		res := c.put(n, readings(int64(i)*3000, 3000), store.WriterSeq{})
		c.until("the node has all", func() bool {
			h, err := n.Horizon(t.Context())
			return err == nil && h > res.LastAcqNs
		})
		info, err := n.CreateSnapshot(t.Context(), "now")
		if err != nil || len(info.Groups) != 2 || info.Groups[0].Group != 1 ||
			info.AcqNs != min(info.Groups[0].AcqNs, info.Groups[1].AcqNs) {
			t.Fatalf("%+v, %v", info, err)
		}
		keptGroups(t, info, to)
		if all, err := n.Snapshots(); err != nil || len(all) != 1 || all[0].Name != "now" {
			t.Errorf("%+v, %v", all, err)
		}
		if err := n.RemoveSnapshot("now"); err != nil {
			t.Error(err)
		}
		if _, err := n.CreateSnapshot(t.Context(), "now"); err != nil {
			t.Errorf("after the one before was removed: %v", err)
		}
	}
	total := uint64(0)
	for group := 1; group <= 2; group++ {
		dir := filepath.Join(t.TempDir(), "restored")
		from := filepath.Join(to, fmt.Sprint(group))
		report, err := archive.Restore(t.Context(), from, dir, archive.RestoreOptions{})
		if err != nil || report.Parts != 2 {
			t.Fatalf("%+v, %v", report, err)
		}
		s, _, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		count, _, err := s.Count(t.Context(), &record.Query{})
		if err != nil {
			t.Fatal(err)
		}
		total += count
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if total != 6000 {
		t.Errorf("%d records were restored, want 6000", total)
	}
	c.findsDamage()
}

// findsDamage verifies a node whose replicas are well, and then one of which a file is not.
func (c *nodesTogether) findsDamage() {
	c.Helper()
	report, err := c.nodes[0].Verify(c.Context(), check.Options{})
	if err != nil || report.Damages != 0 || report.Rows+report.LogRows < 6000 ||
		len(report.Notes) != 0 {
		c.Fatalf("%+v, %v", report, err)
	}
	files, err := filepath.Glob(filepath.Join(c.options[1].Dir, "groups", "2.*", "store", "log",
		"*.log"))
	if err != nil || len(files) == 0 {
		c.Fatalf("no log of group 2: %v", err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		c.Fatal(err)
	}
	one := make([]byte, 1)
	_, err = f.ReadAt(one, 200)
	if err == nil {
		one[0] ^= 1
		_, err = f.WriteAt(one, 200)
	}
	if err != nil || f.Close() != nil {
		c.Fatal(err)
	}
	report, err = c.nodes[1].Verify(c.Context(), check.Options{})
	if err != nil || report.Damages == 0 || report.Damage[0].File != files[0] ||
		!strings.HasPrefix(report.Damage[0].Reason, "group 2: ") {
		c.Errorf("%+v, %v", report, err)
	}
}
