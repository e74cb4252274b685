package cluster_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestKilledAdoption kills a stand-alone node at random moments of becoming the first node of a
// cluster, and starts it again: everything is there, with its acq. Where the kill came before the
// step that counts, the directory is still that of a stand-alone node.
func TestKilledAdoption(t *testing.T) {
	t.Parallel() // it waits most of the time
	kills := 3
	if text := os.Getenv("PENTAD_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills)
	rng := rand.New(rand.NewPCG(seed, 13))
	bin, origin, token := build(t), t.TempDir(), filepath.Join(t.TempDir(), "token")
	writeToken(t, bin, token)
	n := &process{bin: bin, dir: origin, addr: freeAddress(t)}
	t.Cleanup(n.kill)
	n.start(t)
	w := &grower{writer: writer{id: [16]byte{1}}}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	w.write(ctx, t, n.addr)
	cancel()
	w.settle(t, n.addr)
	want := digestOf(t, n.addr)
	n.kill()
	at, marks := map[string]int{}, []string{"adopt/split/2", "adopt/ADOPTION", "adopt/store",
		"groups/0.1", "groups/1.2/store", "groups/3.4"} // what appears on the way
	for range kills {
		p := &process{bin: bin, dir: filepath.Join(t.TempDir(), "node"), addr: freeAddress(t),
			args: []string{"--cluster-token", token, "--cluster-init", "--groups", "4",
				"--gossip-listen", freeAddress(t), "--raft-listen", freeAddress(t)}}
		t.Cleanup(p.kill)
		if err := os.CopyFS(p.dir, os.DirFS(origin)); err != nil {
			t.Fatal(err)
		}
		p.launch(t)
		deadline := time.Now().Add(startTimeout)
		mark := marks[rng.IntN(len(marks))]
		for !there(p.dir, mark) && !there(p.dir, "groups", "4.5", "store") &&
			time.Now().Before(deadline) {
			pause(t, time.Millisecond)
		}
		pause(t, time.Duration(rng.IntN(20))*time.Millisecond)
		p.kill()
		step := "before"
		switch {
		case there(p.dir, "adopt", "store"):
			step = "on the way, without groups"
			if there(p.dir, "groups") {
				step = "on the way, with groups"
			}
		case there(p.dir, "groups"):
			step = "after"
		default: // it is as it was
			alone := &process{bin: bin, dir: p.dir, addr: p.addr}
			t.Cleanup(alone.kill)
			alone.start(t)
			if got := digestOf(t, p.addr); got != want {
				t.Errorf("stand-alone again: %s, want %s", got, want)
			}
			alone.kill()
		}
		at[step]++
		p.start(t)
		if got := digestOf(t, p.addr); got != want {
			t.Errorf("killed %s: %s, want %s", step, got, want)
		}
		p.kill()
	}
	t.Logf("killed %v", at)
}

// settle stores the batch whose answer did not come when writing ended: it may be on its way, and
// come later than what counts the records.
func (w *grower) settle(t *testing.T, addr string) {
	t.Helper()
	c, err := client.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Put(t.Context(), w.batch(w.next+1), w.id, w.next+1); err != nil {
		t.Fatal(err)
	}
	w.next++
}

func writeToken(t *testing.T, bin, name string) {
	t.Helper()
	if out, err := exec.Command(bin, "cluster", "init", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func there(names ...string) bool {
	_, err := os.Lstat(filepath.Join(names...))
	return err == nil
}

// digestOf is a digest of all that a node stores.
func digestOf(t *testing.T, addr string) string {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		c, err := client.Dial(t.Context(), addr)
		if err == nil {
			count, sum := 0, sha256.New()
			for r, queryErr := range c.Query(t.Context(), &record.Query{Order: record.OrderKey}) {
				if err = queryErr; err != nil {
					break
				}
				count++
				fmt.Fprintln(sum, r.Key, r.Tomb, r.Payload)
			}
			_ = c.Close()
			if err == nil {
				return fmt.Sprintf("%d records, %x", count, sum.Sum(nil))
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v", err)
		}
		pause(t, 20*time.Millisecond)
	}
}
