package cluster_test

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// flipsOfRun is how many bits are flipped, one after another, in what one node has on its disk.
const flipsOfRun = 4

// flipBits flips bits in the files of a node that is not running, starts it, and finds answers of
// it that differ from what the replicas had. It may say that something is damaged, or not start: it
// is for the others to go on. It is the last thing that is done to a cluster.
func (l *load) flipBits(ctx context.Context, rng *rand.Rand) (wrong []string) {
	f := l.f
	i := rng.IntN(len(f.nodes))
	for range flipsOfRun {
		f.nodes[i].kill()
		name, at, ok := flipOne(f.nodes[i].dir, rng)
		if !ok {
			f.fatal("node %d has no files to flip bits in", i)
		}
		f.note("bit flipped, node %d, %s, offset %d", i, name, at)
		f.start(i)
		served, refused := 0, 0
		for g, t := range l.tryReplicas(ctx, i) {
			if t == nil {
				refused++
				continue
			}
			served++
			wrong = append(wrong, t.sameAs(l.groups[g])...)
			wrong = append(wrong, t.wrong...)
		}
		f.note("  %d groups answered right, %d said why not", served, refused)
		if !f.nodes[i].alive() {
			f.note("  the node does not start: %s", f.nodes[i].cmd.ProcessState)
			break
		}
	}
	return wrong
}

// flipOne flips a bit of a file of the node's groups or of their log.
func flipOne(dir string, rng *rand.Rand) (name string, at int64, ok bool) {
	var names []string
	var sizes []int64
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		info, err2 := e.Info()
		if err == nil && err2 == nil && info.Size() >= 64 &&
			(strings.HasPrefix(rel, "groups/") || strings.HasPrefix(rel, "raft/")) {
			names, sizes = append(names, name), append(sizes, info.Size())
		}
		return nil
	})
	if len(names) == 0 {
		return "", 0, false
	}
	k := rng.IntN(len(names))
	text, err := os.ReadFile(names[k])
	if err != nil {
		return "", 0, false
	}
	at = rng.Int64N(sizes[k])
	for try := 0; text[at] == 0 && try < 100; try++ {
		at = rng.Int64N(sizes[k]) // most of a log file is space for what comes
	}
	text[at] ^= 1 << rng.IntN(8)
	return names[k], at, os.WriteFile(names[k], text, 0o644) == nil
}

// tryReplicas reads all replicas of a node side by side: a damaged log is that of many groups, and
// each that does not answer takes all the time that it is given.
func (l *load) tryReplicas(ctx context.Context, i int) map[int]*tally {
	var mu sync.Mutex
	var wg sync.WaitGroup
	tallies := map[int]*tally{}
	for g, nodes := range l.places {
		if slices.Contains(nodes, i) && l.f.nodes[i].alive() {
			wg.Go(func() {
				t := l.tryReplica(ctx, g, i)
				mu.Lock()
				defer mu.Unlock()
				tallies[g] = t
			})
		}
	}
	wg.Wait()
	return tallies
}

// tryReplica reads a replica that may be damaged; nil when it does not answer with all it has.
func (l *load) tryReplica(ctx context.Context, g, i int) *tally {
	c := l.f.client(i).OfParts(l.parts[g : g+1]).After(l.lastNs)
	defer func() { _ = c.Close() }()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) && l.f.nodes[i].alive() {
		t := newTally("after a flipped bit")
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		end, err := c.Scan(one, &record.Query{}, func(b *record.Batch) error {
			for k := range b.Len() {
				t.add(b.Key(k), b.Payload(k))
			}
			return nil
		})
		cancel()
		if err == nil && end.Complete {
			return t
		}
		pause(l.f.T, 200*time.Millisecond)
	}
	return nil
}
