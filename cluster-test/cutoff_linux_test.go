package cluster_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// cutOffMost is how long a query that names an acq may wait at a node that is cut off before
// that says so, on the slowest machine: a query has ten minutes. With nothing else to do it is 4 s.
const cutOffMost = 2 * time.Minute

// cutOff is a way in which a node is cut off from the others.
type cutOff struct {
	name   string
	lives  bool // the others go on
	strike func(f *farm, alone int)
}

func cutOffs() []cutOff {
	from := func(f *farm, alone int) {
		for i := range f.nodes {
			f.wires.set(alone, i, rule{cut: i != alone})
		}
	}
	to := func(f *farm, alone int) {
		for i := range f.nodes {
			f.wires.set(i, alone, rule{cut: i != alone})
		}
	}
	return []cutOff{
		{"it neither hears nor is heard", true, func(f *farm, alone int) {
			from(f, alone)
			to(f, alone)
		}},
		{"it is not heard", true, from},
		{"it does not hear", true, to},
		{"the others are frozen", false, func(f *farm, alone int) {
			for i, m := range f.nodes {
				if i != alone {
					m.signal(syscall.SIGSTOP)
				}
			}
		}},
	}
}

// A node is cut off from the others, which take a record: a query of the node for everything up
// to that is answered early, by an error that says why, and by a client that knows all nodes from
// another one.
func TestAfterAtANodeThatIsCutOff(t *testing.T) {
	t.Parallel() // it waits most of the time
	f := newFarm(t, 3)
	if f.wires == nil {
		required.Skip(t, required.Network, "the network of this machine cannot be cut")
	}
	devices := f.devicesOfGroups(t.Context())
	ways := cutOffs()
	if testing.Short() {
		ways = ways[2:3]
	}
	for n, x := range ways {
		f.until("all nodes are ready", f.ready)
		alone := n % 3
		acq := f.putBehind(x, alone, devices, int64(n+2))
		for _, linear := range []bool{false, true} {
			f.askAfter(x, alone, acq, linear)
		}
		if x.lives {
			f.askAnyAfter(x, alone, acq, uint64(len(devices)*(n+1)))
		}
		f.wires.heal()
		for i := range f.nodes {
			f.nodes[i].signal(syscall.SIGCONT)
		}
	}
}

// askAfter asks the node alone, and wants an error that says that it is cut off.
func (f *farm) askAfter(x cutOff, alone int, acq int64, linear bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), cutOffMost)
	defer cancel()
	c := f.client(alone).After(acq)
	defer func() { _ = c.Close() }()
	if linear {
		c = c.Linearizable()
	}
	began := time.Now()
	_, _, err := c.Count(ctx, &record.Query{})
	took := time.Since(began).Round(time.Millisecond)
	f.Logf("%s, linearizable %v: answered after %s: %v", x.name, linear, took, err)
	var known *wire.Error
	if !errors.As(err, &known) || known.Kind != wire.KindUnavailable ||
		!strings.Contains(known.Message, "another node") {
		f.Errorf("%s, linearizable %v: after %s: %v", x.name, linear, took, err)
	}
}

// askAnyAfter asks by way of a client that knows all nodes, that one first.
func (f *farm) askAnyAfter(x cutOff, alone int, acq int64, least uint64) {
	f.Helper()
	var addrs []string
	for i := range f.nodes {
		addrs = append(addrs, f.nodes[(alone+i)%len(f.nodes)].http)
	}
	c, err := client.New(strings.Join(addrs, ","))
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(f.Context(), cutOffMost)
	defer cancel()
	began := time.Now()
	n, end, err := c.After(acq).Count(ctx, &record.Query{})
	took := time.Since(began).Round(time.Millisecond)
	f.Logf("%s: by a client of all nodes, answered after %s", x.name, took)
	if err != nil || !end.Complete || n < least {
		f.Errorf("%s: after %s: %d records, at least %d are stored: %+v, %v", x.name, took, n,
			least, end, err)
	}
}

// putBehind cuts a node off, has the others take a record of each group, and returns its acq.
func (f *farm) putBehind(x cutOff, alone int, devices []int64, capNs int64) (acq int64) {
	f.Helper()
	b := &record.Batch{}
	for _, device := range devices {
		b.Append(record.Key{CID: 1, MID: device, MOID: 1, CapNs: capNs}, []byte{1})
	}
	x.strike(f, alone)
	f.note("%s: node %d", x.name, alone)
	if !x.lives {
		return time.Now().UnixNano()
	}
	c := f.client((alone + 1) % 3)
	defer func() { _ = c.Close() }()
	f.until("a put is answered", func() bool {
		res, err := c.Put(f.Context(), b, [16]byte{0xde}, uint64(capNs))
		acq = res.LastAcqNs
		return err == nil
	})
	return acq
}
