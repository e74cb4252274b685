package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	firstBackOff = 100 * time.Millisecond
	// sendTimeout bounds one try: a link that takes longer for a batch is as good as cut, and the
	// next node is asked.
	sendTimeout = 2 * time.Minute
)

// errCopied means that someone else ships under the id of this edge.
var errCopied = errors.New("upstream has another batch under this number: the directory of this " +
	"edge is a copy, or an older state, of one that ships, too; move its " + dirName + "/" +
	outboxName + " away to ship all that is here as a new edge")

var errNobody = errors.New("gossip knows no node of the cluster")

// upstream is the nodes that are shipped to, one at a time, and how that went.
type upstream struct {
	mu      sync.Mutex // guards all below
	given   []string   // by the options
	addrs   []string   // and by gossip
	clients map[string]*client.Client
	at      int
	ackedAt time.Time // when something was acknowledged last
	lastErr error     // since then
	retryAt time.Time // zero while nothing is waited for
}

func newUpstream(addrs []string) (*upstream, error) {
	u := &upstream{given: addrs, clients: map[string]*client.Client{}}
	for _, addr := range addrs {
		c, err := client.New(addr)
		if err != nil {
			return nil, fmt.Errorf("edge: upstream: %w", err)
		}
		u.addrs, u.clients[addr] = append(u.addrs, addr), c
	}
	return u, nil
}

// found takes what gossip knows in place of what it knew before.
func (u *upstream) found(addrs []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.Clone(u.given)
	for _, addr := range addrs {
		if u.clients[addr] == nil {
			c, err := client.New(addr)
			if err != nil {
				continue
			}
			u.clients[addr] = c
		}
		if !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	u.addrs = all
	for addr, c := range u.clients {
		if !slices.Contains(all, addr) {
			_ = c.Close() // it has idle connections at most, or one that is on its way
			delete(u.clients, addr)
		}
	}
}

// pick returns the node to send to, nil while none is known.
func (u *upstream) pick() (string, *client.Client) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.addrs) == 0 {
		return "", nil
	}
	addr := u.addrs[u.at%len(u.addrs)]
	return addr, u.clients[addr]
}

// acked notes that the present node has taken something.
func (u *upstream) acked() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ackedAt, u.lastErr, u.retryAt = time.Now(), nil, time.Time{}
}

// next notes an error, and turns to the next node. It logs what it did not log before.
func (u *upstream) next(err error, log *slog.Logger) {
	u.note(err, log)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at++
}

func (u *upstream) note(err error, log *slog.Logger) {
	u.mu.Lock()
	first := u.lastErr == nil
	u.lastErr = err
	u.mu.Unlock()
	if first {
		log.Warn("upstream does not take what is shipped; it is tried again and again", "err", err)
	}
}

func (u *upstream) waits(until time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retryAt = until
}

func (u *upstream) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs []error
	for _, c := range u.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// send gives a batch that follows another one to upstream, however long that takes, and reports
// whether it had it before.
//
// Errors: errMoved when upstream has less of this edge than it had taken, or more again.
func (e *Edge) send(
	ctx context.Context, previous uint64, c *batch, b *record.Batch,
) (again bool, err error) {
	for wait := (backOff{most: e.opt.Retry}); ; {
		addr, to := e.up.pick()
		var reply wire.PutReply
		err := errNobody
		if to != nil {
			once, cancel := context.WithTimeout(ctx, sendTimeout)
			reply, err = to.PutAfter(once, b, e.outbox.writer, c.number(), previous)
			cancel()
		}
		if n := int(reply.Records); err == nil && n != b.Len() &&
			!(reply.Duplicate && n == c.Records) {
			err = fmt.Errorf("of %d records upstream has %d: %w", b.Len(), n, errCopied)
		}
		if err == nil {
			e.up.acked()
			e.asked = time.Now()
			return reply.Duplicate, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		var remote *wire.Error
		least := time.Duration(0)
		if errors.As(err, &remote) {
			least = time.Duration(remote.RetryAfterMs) * time.Millisecond
			newest, gap := remote.Newest()
			if gap && e.hasSent(newest) {
				return false, e.goTo(ctx, addr, newest)
			}
			if gap || remote.Kind == wire.KindSequenceTooOld {
				err = fmt.Errorf("%w (%w)", errCopied, err)
			}
		}
		e.maybeSent = e.maybeSent || to != nil
		e.up.next(fmt.Errorf("%s: batch %d: %w", addr, c.number(), err), e.log)
		if err := wait.sleep(ctx, least, e.up); err != nil {
			return false, err
		}
	}
}

// backOff is the pause between tries: it doubles, and each is drawn around it, so that edges that
// were cut off together do not come back together.
type backOff struct {
	most time.Duration
	next time.Duration
}

func (w *backOff) sleep(ctx context.Context, least time.Duration, u *upstream) error {
	w.next = min(max(2*w.next, min(firstBackOff, w.most)), w.most)
	pause := max(least, w.next/2+rand.N(w.next/2+1))
	u.waits(time.Now().Add(pause))
	return sleep(ctx, pause)
}
