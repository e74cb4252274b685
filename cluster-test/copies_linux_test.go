package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// newPlainFarm starts a cluster of processes on the loopback, with directories of this machine.
func newPlainFarm(t *testing.T, bin string, nodes int) *farm {
	t.Helper()
	f := emptyFarm(t, bin)
	for i := range nodes {
		f.nodes = append(f.nodes, f.newMachine(i))
		f.nodes[i].onLoopback(t)
	}
	f.startAll()
	return f
}

// put stores n readings of one device each, by a node, and waits for the answer.
func (f *farm) put(node int, from, n int64) {
	f.Helper()
	c := f.client(node)
	defer func() { _ = c.Close() }()
	b := &record.Batch{}
	for i := range n {
		b.Append(record.Key{CID: 1, MID: (from + i) << 8, MOID: 1, CapNs: from + i}, []byte("x"))
	}
	var err error
	f.until("a put is answered", func() bool {
		ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
		defer cancel()
		if _, err = c.Put(ctx, b, [16]byte{7}, uint64(from)+1); err != nil {
			f.note("put: %v", err)
		}
		return err == nil
	})
}

// count asks a node for the number of all records, as of now.
func (f *farm) count(node int, patience time.Duration) (uint64, error) {
	c := f.client(node)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	n, end, err := c.Count(ctx, &record.Query{})
	if err == nil && !end.Complete {
		err = fmt.Errorf("the answer is not complete")
	}
	return n, err
}

// problems returns the codes of what a node says is wrong with it.
func (f *farm) problems(node int) (codes []string) {
	resp, err := f.ask.Get("http://" + f.nodes[node].http + "/v1/health")
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	var said struct {
		Problems []struct {
			Code string `json:"code"`
		} `json:"problems"`
	}
	if json.NewDecoder(resp.Body).Decode(&said) != nil {
		return nil
	}
	for _, p := range said.Problems {
		codes = append(codes, p.Code)
	}
	return codes
}

func (f *farm) has(node int, code string) func() bool {
	return func() bool { return strings.Contains(strings.Join(f.problems(node), " "), code) }
}

// whole waits until every node answers n records, all groups have all copies and nothing is wrong.
func (f *farm) whole(n uint64) {
	f.Helper()
	for i := range f.nodes {
		f.until("a node answers all records", func() bool {
			got, err := f.count(i, 10*time.Second)
			if err == nil && got > n {
				f.fatal("node %d answers %d records of %d", i, got, n)
			}
			return err == nil && got == n
		})
	}
	f.until("the cluster is well", func() bool {
		for i := range f.nodes {
			if len(f.problems(i)) > 0 {
				return false
			}
		}
		return f.settled()
	})
}

func (f *farm) killAll() {
	for _, m := range f.nodes {
		m.kill()
	}
}

// copyDir replaces a directory by a copy of another.
func (f *farm) copyDir(to, from string) {
	f.Helper()
	if err := os.RemoveAll(to); err != nil {
		f.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		f.Fatal(err)
	}
}

// A node is put back to an older copy of its directory. While the others are down but for one that
// missed the last writes, the two answer nothing: the copy waits for the third. While the others
// live, its replicas are made again from theirs. A directory that was moved goes on as it is.
func TestADirectoryThatIsPutBack(t *testing.T) {
	t.Parallel() // it waits most of the time
	f := newPlainFarm(t, build(t), 3)
	defer func() {
		if t.Failed() {
			f.tell()
		}
	}()
	kept := filepath.Join(f.root, "kept")
	f.put(0, 0, 1000)
	f.nodes[2].kill()
	f.copyDir(kept, f.nodes[2].dir)
	f.start(2)
	f.whole(1000)

	f.note("node 1 misses the last writes")
	f.nodes[1].kill()
	f.put(0, 1000, 2000)
	f.killAll()
	f.copyDir(f.nodes[2].dir, kept)
	f.start(1)
	f.start(2)
	// It waits for the third, or the other remembers already that the node was started since.
	f.until("the copy is named", func() bool {
		return f.has(2, "unconfirmed")() || f.has(2, "replica_quarantined")()
	})
	for range 3 {
		for _, node := range []int{1, 2} {
			if n, err := f.count(node, 2*time.Second); err == nil {
				t.Errorf("node %d answers %d records of 3000", node, n)
			}
		}
	}
	f.start(0)
	f.whole(3000)

	f.note("the others go on")
	f.nodes[2].kill()
	f.put(0, 3000, 500)
	f.copyDir(f.nodes[2].dir, kept)
	f.start(2)
	f.whole(3500)
	if wrong := f.logged("replica_quarantined"); len(wrong) == 0 {
		t.Error("no node says that replicas were made again")
	}

	f.note("a directory is moved")
	f.nodes[2].kill()
	f.copyDir(kept, f.nodes[2].dir)
	f.copyDir(f.nodes[2].dir, kept)
	before := len(f.logged("has less than it promised"))
	f.start(2)
	f.whole(3500)
	f.put(2, 3500, 100)
	f.whole(3600)
	if after := len(f.logged("has less than it promised")); after != before {
		t.Error("a directory that was moved was fenced")
	}
}

// The first node of a cluster lost its directory and is started as before: it does not make a
// second cluster, neither while others answer nor when they come later.
func TestAWipedFirstNode(t *testing.T) {
	t.Parallel() // it waits most of the time
	f := newPlainFarm(t, build(t), 3)
	defer func() {
		if t.Failed() {
			f.tell()
		}
	}()
	f.put(0, 0, 100)
	first := f.nodes[0]
	ends := func() {
		t.Helper()
		select {
		case <-first.ended:
		case <-time.After(healTimeout):
			f.fatal("the second cluster goes on")
		}
		text, err := os.ReadFile(first.log)
		if err != nil || !strings.Contains(string(text), "--join HOST") {
			t.Errorf("it does not say what to do: %v", err)
		}
		if code := first.cmd.ProcessState.ExitCode(); code == 0 {
			t.Error("it ends without an error")
		}
		first.kill()
	}
	first.kill()
	if err := os.RemoveAll(first.dir); err != nil {
		t.Fatal(err)
	}
	f.start(0)
	ends()
	f.nodes[1].kill()
	f.nodes[2].kill()
	if err := os.RemoveAll(first.dir); err != nil {
		t.Fatal(err)
	}
	f.start(0)
	f.until("the first node serves", func() bool {
		_, err := f.view(0)
		return err == nil
	})
	f.start(1)
	f.start(2)
	ends()
	others := &farm{T: t, nodes: f.nodes[1:], ask: f.ask, began: f.began}
	others.until("the others answer", func() bool {
		n, err := f.count(1, 5*time.Second)
		return err == nil && n == 100
	})
}
