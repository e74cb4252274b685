package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// flipByte flips a bit of the only file that a pattern matches.
func flipByte(t *testing.T, pattern string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil || len(text) == 0 {
		t.Fatalf("%s: %d bytes, %v", names[0], len(text), err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(names[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The state of the cluster is damaged on one of its nodes, or missing: the node starts with its
// other replicas, and gets a new one of the state.
func TestADamagedStateIsReplaced(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again with what a crash left")
	for what, spoil := range map[string]func(t *testing.T, pattern string){
		"a flipped bit": flipByte,
		"an empty file": func(t *testing.T, pattern string) {
			names, err := filepath.Glob(pattern)
			if err != nil || len(names) != 1 || os.Truncate(names[0], 0) != nil {
				t.Fatalf("%s: %v, %v", pattern, names, err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := openTogether(t, 3, 1)
			c.put(c.nodes[0], readings(0, 100), store.WriterSeq{})
			c.sameReplicas()
			was := c.replicasOn(2)
			c.stop(2)
			spoil(t, filepath.Join(c.options[2].Dir, "groups/0.*/STATE"))
			c.nodes[2] = openTest(t, c.options[2])
			c.until("the node answers", func() bool {
				count, _, err := c.nodes[2].Count(t.Context(), &record.Query{})
				return err == nil && count == 100
			})
			c.until("the state is made again", func() bool {
				return c.replicasOn(2)[0] > was[0] && c.settled(3)
			})
			c.sameReplicas()
		})
	}
}

// Where no other node has the state, the error says what is to be done.
func TestADamagedStateOfOneNodeIsAnError(t *testing.T) {
	c := openTogether(t, 1, 1)
	c.put(c.nodes[0], readings(0, 100), store.WriterSeq{})
	c.stop(0)
	c.options[0].Cluster.Init, c.options[0].Cluster.Groups = false, 0
	dirs, err := filepath.Glob(filepath.Join(c.options[0].Dir, "groups/0.*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, %v", dirs, err)
	}
	if err := os.WriteFile(filepath.Join(dirs[0], "STATE"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), c.options[0])
	if err == nil {
		_ = n.Close(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "STATE") ||
		!strings.Contains(err.Error(), "pentad backup --dir "+c.options[0].Dir) {
		t.Fatal(err)
	}
}

// Where no other node has the records, a start without the log of the groups does not take what
// there is of them for leftovers.
func TestALostGroupsLogOfOneNodeIsAnError(t *testing.T) {
	c := openTogether(t, 1, 1)
	c.put(c.nodes[0], readings(0, 100), store.WriterSeq{})
	c.stop(0)
	dir := c.options[0].Dir
	removeAll(t, dir, "raft/*")
	n, err := Open(t.Context(), c.options[0])
	if err == nil {
		_ = n.Close(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "the log of the groups is missing") {
		t.Error(err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "groups/1.*/store/MANIFEST"))
	if err != nil || len(kept) != 1 {
		t.Errorf("the records are gone: %v, %v", kept, err)
	}
}

// The store that a node of a cluster has for itself holds nothing: a damaged one is made again.
func TestADamagedOwnStoreIsMadeAgain(t *testing.T) {
	c := openTogether(t, 1, 1)
	for i, file := range []string{"store/MANIFEST", "store/log/*"} {
		c.put(c.nodes[0], readings(int64(i)*100, 100), store.WriterSeq{})
		c.stop(0)
		c.options[0].Cluster.Init, c.options[0].Cluster.Groups = false, 0
		flipByte(t, filepath.Join(c.options[0].Dir, file))
		c.nodes[0] = openTest(t, c.options[0])
		if got := c.count(c.nodes[0], &record.Query{}); got != uint64(i+1)*100 {
			t.Errorf("%s: %d records", file, got)
		}
	}
	for _, name := range []string{"store.damaged-1", "store.damaged-2"} {
		if _, err := os.Stat(filepath.Join(c.options[0].Dir, name)); err != nil {
			t.Error(err)
		}
	}
}
