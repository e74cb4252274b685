package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestDeviceSteps has clients create, describe, rename, replace, remove and purge devices of few
// names, one request of one client after the other in random order, and ends some of them before or
// after a request. Whenever all are done, each described device has the one name that it is
// described with, no device has two names, and none that was removed has one.
func TestDeviceSteps(t *testing.T) {
	t.Run("node", func(t *testing.T) {
		deviceSteps(t, []*Node{openTest(t, Options{})}, 150)
	})
	t.Run("cluster", func(t *testing.T) {
		deviceSteps(t, openTogether(t, 3, 4).nodes, 15)
	})
}

func deviceSteps(t *testing.T, nodes []*Node, rounds int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	x := &steppedDevices{T: t, ended: map[int64]bool{}}
	checker := client.NewLocal(&steppedNode{n: nodes[0]})
	for range rounds {
		var all []*steppedNode
		for i := range 2 + rng.IntN(3) {
			all = append(all, newSteppedNode(nodes[i%len(nodes)], rng))
		}
		var wg sync.WaitGroup
		for _, s := range all {
			own := rand.New(rand.NewPCG(rng.Uint64(), 0))
			wg.Go(func() {
				defer close(s.ready)
				for range 1 + own.IntN(3) {
					s.died, s.left = false, -1
					if own.IntN(3) == 0 {
						s.left = own.IntN(12)
					}
					if s.wait() {
						x.act(client.NewLocal(s), own)
					}
				}
			})
		}
		letThem(all, rng)
		wg.Wait()
		x.check(checker)
		if rng.IntN(3) == 0 { // the next one finds all names usable
			for _, name := range deviceStepNames {
				x.change(checker, name, rng)
			}
			x.check(checker)
		}
		if t.Failed() {
			return
		}
	}
}

var deviceStepNames = []string{"a", "b", "c"}

// steppedNode is a node that answers a client when it is let.
type steppedNode struct {
	n       *Node
	rng     *rand.Rand
	ready   chan struct{} // a request waits; closed when the client is done
	proceed chan struct{}
	left    int // requests until the client ends; below 0: it does not
	died    bool
}

func newSteppedNode(n *Node, rng *rand.Rand) *steppedNode {
	return &steppedNode{n: n, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)),
		ready: make(chan struct{}), proceed: make(chan struct{})}
}

// letThem lets one client after the other make a request, until all are done.
func letThem(all []*steppedNode, rng *rand.Rand) {
	waiting := map[*steppedNode]bool{}
	for len(all) > 0 {
		for i := 0; i < len(all); i++ {
			if waiting[all[i]] {
				continue
			}
			if _, ok := <-all[i].ready; ok {
				waiting[all[i]] = true
				continue
			}
			all = append(all[:i], all[i+1:]...)
			i--
		}
		if len(all) > 0 {
			one := all[rng.IntN(len(all))]
			waiting[one] = false
			one.proceed <- struct{}{}
		}
	}
}

func (s *steppedNode) wait() bool {
	if s.ready != nil {
		s.ready <- struct{}{}
		<-s.proceed
	}
	return true
}

var errClientDied = errors.New("the client has ended")

// step makes a request unless the client has ended, as it may do before its answer comes, too.
func (s *steppedNode) step(do func() error) error {
	if s.ready == nil {
		return do()
	}
	if s.died {
		return errClientDied
	}
	s.wait()
	if s.left > 0 {
		s.left--
	} else if s.left == 0 {
		s.died = true
		if s.rng.IntN(2) == 0 {
			_ = do()
		}
		return errClientDied
	}
	return do()
}

// Scan implements client.Local.
func (s *steppedNode) Scan(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (end wire.End, err error) {
	err = s.step(func() error {
		a, err := s.n.engine.Prepare(ctx, request.Options{Linearizable: true}, q)
		if err != nil {
			return toWire(err)
		}
		defer a.Done()
		if end, err = a.Rows(ctx, emit); err != nil {
			return toWire(err)
		}
		return nil
	})
	return end, err
}

// Put implements client.Local.
func (s *steppedNode) Put(
	ctx context.Context, b *record.Batch, unlessNewerNs int64,
) (out wire.PutReply, err error) {
	return out, s.step(func() (err error) {
		if unlessNewerNs < 0 {
			_, err = s.n.Put(ctx, b, store.WriterSeq{})
		} else {
			_, err = s.n.PutUnlessNewer(ctx, b, store.WriterSeq{}, unlessNewerNs)
		}
		if err != nil {
			return toWire(err)
		}
		return nil
	})
}

// Purge implements client.Local.
func (s *steppedNode) Purge(ctx context.Context, box *wire.Box) error {
	return s.step(func() error {
		if _, err := s.n.writes.DeleteRange(ctx, request.Options{}, box, true); err != nil {
			return toWire(err)
		}
		return nil
	})
}

// steppedDevices are devices that clients change.
type steppedDevices struct {
	*testing.T
	mu    sync.Mutex
	ended map[int64]bool // ids that a client was told were removed
	did   int
}

// act makes one change.
func (x *steppedDevices) act(c *client.Client, rng *rand.Rand) {
	name := deviceStepNames[rng.IntN(len(deviceStepNames))]
	other := deviceStepNames[rng.IntN(len(deviceStepNames))]
	fromNs := 1 + rng.Int64N(5)
	switch rng.IntN(9) {
	case 0:
		_, _, err := c.NameDevices(x.Context(), 1, []string{name, other})
		x.answered(err)
	case 1:
		mid, _, err := c.RemoveDevice(x.Context(), 1, name)
		x.end(mid, err)
	case 2, 3:
		_, err := c.RenameDevice(x.Context(), 1, name, other, fromNs)
		x.answered(err)
	case 4:
		p, err := c.PurgeDevice(x.Context(), 1, name)
		x.end(p.MID, err)
	case 5:
		_, _, err := c.ReplaceDevice(x.Context(), 1, name, other, fromNs)
		x.answered(err)
	case 6:
		_, err := c.RemoveDescription(x.Context(), 1, name, fromNs)
		x.answered(err)
	default:
		x.change(c, name, rng)
	}
}

func (x *steppedDevices) change(c *client.Client, name string, rng *rand.Rand) {
	kind := fmt.Sprint("t", rng.IntN(1000))
	_, err := c.ChangeDevices(x.Context(), 1, []client.DeviceChange{{Name: name,
		FromNs: 1 + rng.Int64N(5), Last: rng.IntN(2) == 0,
		Change: registry.Change{Type: &kind}}})
	x.answered(err)
}

// end notes a device that a client was told was removed.
func (x *steppedDevices) end(mid int64, err error) {
	if x.answered(err); err == nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ended[mid] = true
	}
}

// answered fails on errors that are not about what other clients did.
func (x *steppedDevices) answered(err error) {
	var device *client.DeviceError
	var remote *wire.Error
	switch {
	case err == nil:
		x.mu.Lock()
		defer x.mu.Unlock()
		x.did++
	case errors.Is(err, errClientDied), errors.As(err, &device):
	case errors.As(err, &remote) && remote.Kind.Temporary():
	default:
		x.Error(err)
	}
}

// check compares names, descriptions and what was removed.
func (x *steppedDevices) check(c *client.Client) {
	x.Helper()
	names, err := c.Devices(x.Context(), 1)
	if err != nil {
		x.Fatal(err)
	}
	has := map[int64]string{}
	for i, d := range names {
		if other, ok := has[d.MID]; ok || i > 0 && names[i-1].Name == d.Name {
			x.Errorf("%q of %d: it has the name %q, too", d.Name, d.MID, other)
		}
		if x.ended[d.MID] {
			x.Errorf("%d was removed and has the name %q", d.MID, d.Name)
		}
		has[d.MID] = d.Name
		if mid, err := c.FindDevice(x.Context(), 1, d.Name, client.When{}); err != nil ||
			mid != d.MID {
			x.Errorf("%q is found as %d, and listed as %d; %v", d.Name, mid, d.MID, err)
		}
	}
	left, err := c.SelectDevices(x.Context(), 1, "")
	if err != nil {
		x.Fatal(err)
	}
	for _, d := range left {
		if name, ok := has[d.MID]; !ok || name != d.Name {
			x.Errorf("%d has the name %q, and is described as %q", d.MID, name, d.Name)
		}
	}
}
