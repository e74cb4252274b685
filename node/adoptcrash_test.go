package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
)

// adopt makes the directory that of a cluster's first node, and does not start it.
func (l *lonely) adopt(config cluster.Config) {
	l.Helper()
	if err := l.nodes[0].Close(l.Context()); err != nil && !errors.Is(err, nodeerror.ErrClosing) {
		l.Fatal(err)
	}
	opt := member.AdoptOptions{Dir: l.options[0].Dir, Cluster: config,
		Store: l.options[0].Store, Log: slog.New(slog.DiscardHandler)}
	opt.Store.Dir = filepath.Join(opt.Dir, "store")
	if err := member.Adopt(l.Context(), opt); err != nil {
		l.Fatal(err)
	}
}

// undo takes the last step of an adoption back, which moves the store, and removes more.
func (l *lonely) undo(names ...string) {
	l.Helper()
	dir := l.options[0].Dir
	err := os.Rename(filepath.Join(dir, "adopt", "store"), filepath.Join(dir, "store"))
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	if err != nil {
		l.Fatal(err)
	}
}

// crashes of adoptions.
func crashes() map[string]func(l *lonely, config cluster.Config) {
	return map[string]func(l *lonely, config cluster.Config){
		"before the store moves": func(l *lonely, config cluster.Config) {
			l.adopt(config)
			l.undo()
		},
		"while seeds are made": func(l *lonely, config cluster.Config) {
			l.adopt(config)
			l.undo("adopt/ADOPTION", "adopt/split/2", "adopt/split/1/MANIFEST")
		},
		"before the store moves, and it goes on alone": func(l *lonely, config cluster.Config) {
			l.adopt(config)
			l.undo()
			if err := l.again(cluster.Config{}); err != nil {
				l.Fatal(err)
			}
			l.live(10)
			l.want = l.seen(l.nodes[0])
		},
		"after the store has moved": func(l *lonely, config cluster.Config) { l.adopt(config) },
		"while the rest is removed": func(l *lonely, config cluster.Config) {
			if err := l.again(config); err != nil {
				l.Fatal(err)
			}
			l.until("all groups lead", func() bool { return l.settled(1) })
			dir := l.options[0].Dir
			err := errors.Join(l.nodes[0].Close(l.Context()),
				os.MkdirAll(filepath.Join(dir, "adopt.done", "store"), 0o755),
				os.MkdirAll(filepath.Join(dir, "plugins"), 0o755))
			if err != nil {
				l.Fatal(err)
			}
		},
	}
}

// TestAdoptAfterCrashes begins with what a crash leaves at steps of an adoption. Until the store of
// the stand-alone node has moved, its directory is as it was and may be used as before; from then
// on the adoption goes on.
func TestAdoptAfterCrashes(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again with what a crash left")
	for name, crash := range crashes() {
		t.Run(name, func(t *testing.T) {
			l := newLonely(t)
			l.live(10)
			l.tell()
			l.want = l.seen(l.nodes[0])
			config := l.config(true, 2)
			crash(l, config)
			dir := l.options[0].Dir
			_, err := os.Stat(filepath.Join(dir, "adopt", "store"))
			if _, in := os.Stat(filepath.Join(dir, "groups")); err == nil || in == nil {
				if err := l.again(cluster.Config{}); !errors.Is(err, member.ErrInCluster) {
					t.Fatalf("alone: %v", err)
				}
			} else if err := l.again(cluster.Config{}); err != nil {
				t.Fatal(err)
			} else if _, err := os.Stat(filepath.Join(dir, "adopt")); err == nil {
				t.Fatal("a stand-alone node leaves what an adoption began")
			}
			for _, start := range []string{"adopted", "another start"} {
				if err := l.again(config); err != nil {
					t.Fatal(err)
				}
				l.until("all groups lead", func() bool { return l.settled(1) })
				l.same(start, l.nodes[0], l.want)
			}
			l.tidy()
		})
	}
}

// tidy wants nothing left of the stand-alone node.
func (l *lonely) tidy() {
	l.Helper()
	for _, name := range []string{"adopt", "adopt.done", "plugins", "cursors"} {
		if _, err := os.Stat(filepath.Join(l.options[0].Dir, name)); err == nil {
			l.Errorf("%s is left", name)
		}
	}
}
