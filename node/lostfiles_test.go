package node

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// removeAll removes what patterns match in a directory, and fails when that is nothing.
func removeAll(t *testing.T, dir string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// All files of a running node are removed: it is not ready, says so, and acknowledges nothing; what
// it has in memory it still answers, and it asks not to be ended for that.
func TestANodeWithoutFilesTakesNoPuts(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	n, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	db := dial(t, n)
	if err := putOne(t, db, f64(1)); err != nil {
		t.Fatal(err)
	}
	removeAll(t, opt.Dir, "*")
	eventually(t, "a problem", hasProblem(n, "log_failed", "removed while the node ran"))
	if status, text := statusOf(t, n, "/readyz"); status != 503 {
		t.Errorf("/readyz: %d %s", status, text)
	}
	if status, text := statusOf(t, n, "/healthz"); status != 200 {
		t.Errorf("/healthz: %d %s", status, text)
	}
	if err := putOne(t, db, f64(2)); !isUnavailable(err) {
		t.Errorf("a put: %v", err)
	}
	if count, _, err := n.Count(t.Context(), &record.Query{}); err != nil || count != 1 {
		t.Errorf("%d records, %v", count, err)
	}
}

// The files of replicas of a running node of a cluster are removed: new ones take their places.
func TestReplicasWithoutFilesAreReplaced(t *testing.T) {
	c := openTogether(t, 3, 2)
	for i := range 4 {
		c.put(c.nodes[0], readings(int64(i)*500, 500), store.WriterSeq{})
	}
	c.sameReplicas()
	was := c.replicasOn(2)
	removeAll(t, c.options[2].Dir, "groups/0.*", "groups/1.*/store/MANIFEST", "groups/2.*")
	c.until("the replicas are made again", func() bool {
		for group, id := range c.replicasOn(2) {
			if id <= was[group] {
				return false
			}
		}
		return c.settled(3)
	})
	c.put(c.nodes[0], readings(2000, 500), store.WriterSeq{})
	c.sameReplicas()
}

// The log of the groups of a node is removed while it runs, or the whole directory: it must end,
// and the others go on with all that was acknowledged.
func TestANodeWithoutTheGroupsLogEnds(t *testing.T) {
	for what, pattern := range map[string]string{"the log": "raft/*", "everything": "*"} {
		t.Run(what, func(t *testing.T) {
			var ended atomic.Pointer[error]
			c := openTogetherWith(t, 3, 1, func(opt *Options) {
				fail := opt.Fail
				opt.Fail = func(err error) {
					if !errors.Is(err, replica.ErrLogFailed) &&
						!errors.Is(err, wal.ErrFailed) {
						fail(err)
					}
					ended.Store(&err)
				}
			})
			c.put(c.nodes[0], readings(0, 500), store.WriterSeq{})
			c.sameReplicas()
			removeAll(t, c.options[2].Dir, pattern)
			c.until("the node must end", func() bool { return ended.Load() != nil })
			_ = c.nodes[2].Close(t.Context()) // it says that its log has failed
			c.nodes = c.nodes[:2]
			c.put(c.nodes[0], readings(500, 500), store.WriterSeq{})
			for _, n := range c.nodes {
				c.until("the others have all", func() bool {
					count, _, err := n.Count(t.Context(), &record.Query{})
					return err == nil && count == 1000
				})
			}
		})
	}
}
