package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/archive"
)

// openStore opens the store of the node. That of a node of a cluster holds nothing: a damaged one
// is set aside, and made again.
func (n *Node) openStore(ctx context.Context) (*store.Store, store.Report, error) {
	if err := archive.CheckFinished(n.opt.Store.Dir); err != nil {
		return nil, store.Report{}, err
	}
	opt := n.opt.Store
	opt.Replaying = n.logReplay()
	n.log.Info("opening the data", "dir", n.opt.Dir)
	s, report, err := store.Open(ctx, opt)
	if !errors.As(err, new(*durable.CorruptError)) || n.opt.Cluster.TokenFile == "" ||
		!errors.Is(member.CheckAlone(n.opt.Dir, false), member.ErrInCluster) {
		return s, report, err
	}
	aside, failed := setAside(n.opt.Store.Dir)
	if failed != nil {
		return nil, report, errors.Join(err, failed)
	}
	n.log.Warn("the node's own store is damaged, set aside and made again: of a node of a "+
		"cluster it holds no records, those are in its groups", "err", err, "dir", aside)
	return store.Open(ctx, n.opt.Store)
}

// replayLogEvery is the distance of lines about a replay: a log that is replayed in less has none.
const replayLogEvery = 2 * time.Second

// logReplay returns what tells the log of the node how far the replay of the store's log is.
func (n *Node) logReplay() func(doneBytes, allBytes int64) {
	began := time.Now()
	shown := began
	return func(doneBytes, allBytes int64) {
		now := time.Now()
		if now.Sub(shown) < replayLogEvery {
			return
		}
		shown = now
		n.log.Info("replaying the log", "done_bytes", doneBytes, "all_bytes", allBytes,
			"took", now.Sub(began).Round(time.Millisecond).String())
	}
}

// setAside gives a directory a name that is free.
func setAside(dir string) (aside string, err error) {
	for i := 1; ; i++ {
		aside = fmt.Sprintf("%s.damaged-%d", dir, i)
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			return aside, os.Rename(dir, aside)
		} else if err != nil {
			return aside, err
		}
	}
}
