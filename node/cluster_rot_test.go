package node

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestARottenReplicaIsReplaced flips bits in the segments of one replica of a running cluster: the
// scrub or a query finds that, answers are right or errors all the while, and the node gets a new
// replica in place of the damaged one.
func TestARottenReplicaIsReplaced(t *testing.T) {
	for name, every := range map[string]time.Duration{"scrub": 300 * time.Millisecond, "query": 0} {
		t.Run(name, func(t *testing.T) {
			c := openTogetherWith(t, 3, 2, func(opt *Options) {
				opt.Store.Scrub = background.NewScrub(every, 1<<30)
			})
			for i := range 4 {
				c.put(c.nodes[0], readings(int64(i)*500, 500), store.WriterSeq{})
			}
			c.sameReplicas() // from heads: no block is verified yet
			m := c.nodes[2].member.Load()
			was, _ := m.View().ReplicaOn(1, m.Self())
			s := m.Stores()[1]
			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(c.options[2].Dir, "groups/1.*/store/*.seg"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%v, %v", files, err)
			}
			flipBits(t, files[0])
			replaced := func() bool {
				r, _ := m.View().ReplicaOn(1, m.Self())
				return m.Store(1) != nil && r.ID > was.ID && len(m.View().Groups[1].Replicas) == 3
			}
			var asking sync.WaitGroup
			if name == "query" {
				asking.Go(func() { c.rightOrError(replaced) })
			}
			c.until("the damaged replica is replaced", replaced)
			asking.Wait()
			c.until("all rows are read on each node", func() bool {
				for i := range c.nodes {
					if right, err := c.allRight(i); !right || err != nil {
						return false
					}
				}
				return true
			})
			c.sameReplicas()
			if damage := m.Stores()[1].Damage(); len(damage) > 0 {
				t.Errorf("%v of the new replica", damage)
			}
		})
	}
}

// rightOrError asks node 2 until a state of the cluster is reached; no answer may be wrong, and
// those that could be asked of another node must come.
func (c *nodesTogether) rightOrError(until func() bool) {
	answered := 0
	for !until() && !c.Failed() {
		right, err := c.allRight(2)
		if err == nil && !right {
			c.Error("a wrong answer")
		}
		if err == nil {
			answered++
		}
	}
	c.Logf("%d right answers while a replica was damaged", answered)
}

// allRight asks a node for all rows.
func (c *nodesTogether) allRight(node int) (bool, error) {
	seen := map[int64]bool{}
	right := true
	var mu sync.Mutex
	_, err := dial(c.T, c.nodes[node]).Scan(c.Context(), &record.Query{},
		func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				n := b.MID[i] / 256
				right = right && b.CID[i] == 1 && b.MOID[i] == 1 && b.CapNs[i] == n+1 &&
					string(b.Payload(i)) == string(f64(float64(n))) && !seen[n]
				seen[n] = true
			}
			return nil
		})
	return right && len(seen) == 2000, err
}

// flipBits flips bits of the first block of a segment.
func flipBits(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	piece := make([]byte, 1000)
	if _, err := f.ReadAt(piece, 100); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		piece[rand.IntN(len(piece))] ^= 1 << rand.IntN(8)
	}
	if _, err := f.WriteAt(piece, 100); err != nil {
		t.Fatal(err)
	}
}
