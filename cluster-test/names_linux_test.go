package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestNamesAcrossAPartition names the same devices by all nodes and counts up what is known of one
// of them while one node is cut off, each in turn: it answers with an error, names have one id for
// all, and no count is lost or made twice. Devices that are described, renamed and removed at the
// same time have the names that they are described with.
func TestNamesAcrossAPartition(t *testing.T) {
	t.Parallel() // it waits most of the time
	f := newFarm(t, 3)
	if f.wires == nil {
		required.Skip(t, required.Network, "the network of this machine cannot be cut")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &namers{T: t, ids: map[string]int64{}}
	ways := cutOffs()[:3]
	if testing.Short() {
		ways = ways[:1]
	}
	for n, x := range ways {
		f.until("all nodes are ready", f.ready)
		stop := make(chan struct{})
		failed := make(chan struct{}, 1) // the node that is alone has answered with an error
		var wg sync.WaitGroup
		for i := range f.nodes {
			rng := rand.New(rand.NewPCG(seed, uint64(10*n+i)))
			c := f.client(i)
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					if !w.turn(c, rng) && i == n {
						select {
						case failed <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		x.strike(f, n)
		select {
		case <-failed:
		case <-t.Context().Done():
		}
		f.wires.heal()
		f.until("all nodes are ready", f.ready)
		close(stop)
		wg.Wait()
	}
	for i := range f.nodes {
		c := f.client(i)
		w.check(c)
		_ = c.Close()
	}
}

// namers are clients that name the same devices.
type namers struct {
	*testing.T
	mu              sync.Mutex
	ids             map[string]int64 // by name, as any of them was answered
	counts, unknown int
}

const namesCID = 3

// turn names some devices, or counts; it reports whether that was answered.
func (w *namers) turn(c *client.Client, rng *rand.Rand) bool {
	ctx, cancel := context.WithTimeout(w.Context(), cutOffMost)
	defer cancel()
	switch rng.IntN(4) {
	case 0, 1:
		return w.answered(w.count(ctx, c))
	case 2:
		return w.answered(changeSome(ctx, c, rng))
	}
	names := make([]string, 1+rng.IntN(5))
	for i := range names {
		names[i] = fmt.Sprint("site/", rng.IntN(3000))
	}
	ids, _, err := c.NameDevices(ctx, namesCID, names)
	if err != nil {
		return w.answered(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, name := range names {
		if was, ok := w.ids[name]; ok && was != ids[i] {
			w.Errorf("%s has the ids %d and %d", name, was, ids[i])
		}
		w.ids[name] = ids[i]
	}
	return true
}

// changeSome describes, renames or removes one of few devices.
func changeSome(ctx context.Context, c *client.Client, rng *rand.Rand) (err error) {
	name, other := fmt.Sprint("pump/", rng.IntN(4)), fmt.Sprint("pump/", rng.IntN(4))
	switch rng.IntN(4) {
	case 0:
		_, _, err = c.RemoveDevice(ctx, namesCID, name)
	case 1:
		_, err = c.RenameDevice(ctx, namesCID, name, other, rng.Int64N(5))
	default:
		kind := fmt.Sprint("t", rng.IntN(1000))
		_, err = c.ChangeDevices(ctx, namesCID, []client.DeviceChange{{Name: name,
			FromNs: rng.Int64N(5), Change: registry.Change{Type: &kind}}})
	}
	return err
}

// answered reports whether there is no error, or only that another client was faster.
func (w *namers) answered(err error) bool {
	if device := (*client.DeviceError)(nil); errors.As(err, &device) {
		return true
	}
	var known *wire.Error
	if errors.As(err, &known) && !known.Kind.Temporary() && known.Kind != wire.KindConflict {
		w.Error(err)
	}
	return err == nil || known != nil && known.Kind == wire.KindConflict
}

// count adds one to an attribute of device 1, unless another client was faster.
func (w *namers) count(ctx context.Context, c *client.Client) error {
	n, newestNs, err := w.read(ctx, c)
	if err != nil {
		return err
	}
	d := client.DescribedDevice{MID: 1, Description: registry.Description{
		Attributes: map[string]registry.Value{"n": registry.Number(n + 1)}}}
	err = c.DescribeUnlessNewer(ctx, namesCID, []client.DescribedDevice{d}, newestNs)
	w.mu.Lock()
	defer w.mu.Unlock()
	var known *wire.Error
	switch {
	case err == nil:
		w.counts++
	case !errors.As(err, &known) || known.Kind != wire.KindConflict:
		w.unknown++
	}
	return err
}

// read returns the newest count and its acq.
func (w *namers) read(ctx context.Context, c *client.Client) (n float64, acqNs int64, err error) {
	q := &record.Query{Box: record.Box{record.CID: {record.At(namesCID)},
		record.MID: {record.At(1)}, record.MOID: {record.At(record.DescriptionMOID)}}}
	end, err := c.Linearizable().Scan(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			d, err := registry.Parse(b.Payload(i))
			if err != nil {
				return err
			}
			if b.AcqNs[i] > acqNs {
				n, acqNs = d.Attributes["n"].Number(), b.AcqNs[i]
			}
		}
		return nil
	})
	if err == nil && !end.Complete {
		err = errors.New(end.Reason)
	}
	return n, acqNs, err
}

// check compares what a node has with what clients were answered.
func (w *namers) check(c *client.Client) {
	devices, err := c.Devices(w.Context(), namesCID)
	if err != nil {
		w.Fatal(err)
	}
	of := map[int64]string{}
	have := map[string]int64{}
	for _, d := range devices {
		if other, ok := of[d.MID]; ok {
			w.Errorf("%s and %s both have id %d", other, d.Name, d.MID)
		}
		of[d.MID], have[d.Name] = d.Name, d.MID
	}
	for name, id := range w.ids {
		if have[name] != id {
			w.Errorf("%s has id %d, and a client was answered %d", name, have[name], id)
		}
	}
	described, err := c.SelectDevices(w.Context(), namesCID, "")
	if err != nil {
		w.Fatal(err)
	}
	for _, d := range described {
		if d.MID != 1 && (d.Name == "" || of[d.MID] != d.Name) {
			w.Errorf("%d has the name %q, and is described as %q", d.MID, of[d.MID], d.Name)
		}
	}
	n, _, err := w.read(w.Context(), c)
	if err != nil || int(n) < w.counts || int(n) > w.counts+w.unknown {
		w.Errorf("counted to %v, and clients %d, of %d unknown; %v", n, w.counts, w.unknown, err)
	}
	w.Logf("%d names, counted to %v, %d unknown", len(devices), n, w.unknown)
}
