package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/store"
)

// TestALostLogFileIsNoticed takes the newest file of the groups' log from a node that is down, with
// and without the file that vouches for it, or empties it: its replicas are made again from those
// of the other nodes.
func TestALostLogFileIsNoticed(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again with what a crash left")
	for name, lose := range map[string]func(dir, newest string) error{
		"removed": func(_, newest string) error { return os.Remove(newest) },
		"emptied": func(_, newest string) error { return os.Truncate(newest, 0) },
		"removed, with what vouches for it": func(dir, newest string) error {
			return errors.Join(os.Remove(newest), os.Remove(filepath.Join(dir, "TAIL")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := openTogether(t, 3, 2)
			c.stop(2)
			c.nodes[2] = openTest(t, c.options[2]) // which begins another file
			c.until("the node is back", func() bool { return c.settled(3) })
			for i := range 4 {
				c.put(c.nodes[2], readings(int64(i)*500, 500), store.WriterSeq{})
			}
			c.sameReplicas()
			was := c.replicasOn(2)
			c.stop(2)
			dir := filepath.Join(c.options[2].Dir, "raft")
			files, err := filepath.Glob(filepath.Join(dir, "*.log"))
			if err != nil || len(files) < 2 {
				t.Fatalf("%v, %v", files, err)
			}
			if err := lose(dir, files[len(files)-1]); err != nil {
				t.Fatal(err)
			}
			c.nodes[2] = openTest(t, c.options[2])
			c.until("replicas are made again", func() bool {
				if c.nodes[2].member.Load() == nil || !c.settled(3) {
					return false
				}
				again, all := 0, c.replicasOn(2)
				for group, id := range all {
					if id > was[group] {
						again++
					}
				}
				// Where only the other nodes know it, a group that had nothing in the file lacks
				// nothing.
				return again == len(all) || again > 0 && strings.Contains(name, "vouches")
			})
			c.until("all rows are read on each node", func() bool {
				for i := range c.nodes {
					if right, err := c.allRight(i); !right || err != nil {
						return false
					}
				}
				return true
			})
			c.sameReplicas()
		})
	}
}

// replicasOn returns the replicas that a node has, by group.
func (c *nodesTogether) replicasOn(i int) (ids []cluster.ReplicaID) {
	m := c.nodes[i].member.Load()
	for group := range m.View().Groups {
		r, _ := m.View().ReplicaOn(cluster.GroupID(group), m.Self())
		ids = append(ids, r.ID)
	}
	return ids
}
