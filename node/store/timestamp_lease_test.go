package store

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
)

// leaseReplica is a replica to which leaders lease horizons.
type leaseReplica struct {
	*Store
	t     *testing.T
	opt   Options
	index uint64 // of the last command
}

func newLeaseReplica(t *testing.T) *leaseReplica {
	p := &leaseReplica{t: t, opt: Options{Dir: t.TempDir(), Group: testGroup}}
	p.open()
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *leaseReplica) open() {
	p.t.Helper()
	var err error
	if p.Store, _, err = Open(p.t.Context(), p.opt); err != nil {
		p.t.Fatal(err)
	}
}

func (p *leaseReplica) again() {
	p.t.Helper()
	if err := p.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.open()
}

func (p *leaseReplica) apply(ns int64, data []byte) {
	p.t.Helper()
	p.index++
	out, err := p.Apply(p.t.Context(), []Command{{p.index, ns, data}})
	if err != nil || out[0].Err != nil {
		p.t.Fatalf("%+v, %v", out, err)
	}
}

// is checks the horizon, and the one that the log has.
func (p *leaseReplica) is(horizon, given int64) {
	p.t.Helper()
	h, err := p.ExtendHorizon(p.t.Context())
	if err != nil || h != horizon || p.LogHorizon() != given {
		p.t.Errorf("horizon %d, by the log %d, want %d and %d; %v", h, p.LogHorizon(), horizon,
			given,
			err)
	}
}

// TestLeases: what a leader leases of a horizon holds from the command on that it is of, moves
// nothing else, and is not there after a restart.
func TestLeases(t *testing.T) {
	p := newLeaseReplica(t)
	p.apply(1000, commands.AppendHorizon(nil))
	p.LeaseHorizon(p.index, 2000)
	p.is(2000, 1000)
	p.LeaseHorizon(p.index, 1500) // came late
	p.is(2000, 1000)
	p.LeaseHorizon(p.index+1, 2500) // of a command that is not here yet
	p.is(2000, 1000)
	p.LeaseHorizon(p.index+2, 2400) // says nothing that is not said
	p.apply(2100, commands.AppendHorizon(nil))
	p.is(2500, 2100)
	p.apply(2600, commands.AppendHorizon(nil))
	p.is(2600, 2600)
	feed, err := p.Feed(record.Box{}, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	feed.Await(2900)
	p.LeaseHorizon(p.index, 3000)
	if err := feed.Wait(t.Context(), time.Hour); err != nil { // or the test takes an hour
		t.Fatal(err)
	}
	if _, err := feed.Read(t.Context(), new(Slice)); err != nil || feed.NextNs() != 3000 {
		t.Errorf("a feed is at %d: %v", feed.NextNs(), err)
	}
	feed.Close()
	p.again()
	p.is(2600, 2600)
}

// TestLeasesOfACopy: no lease counts while a replica is a copy.
func TestLeasesOfACopy(t *testing.T) {
	p := newLeaseReplica(t)
	p.apply(2600, commands.AppendHorizon(nil))
	p.LeaseHorizon(p.index, 3000)
	p.LeaseHorizon(p.index+1, 3500)
	rng := mirror.Range{Of: "00000000000000000000000000000007", ToNs: 500}
	command, err := commands.AppendRange(nil, &rng)
	if err != nil {
		t.Fatal(err)
	}
	p.apply(3100, command)
	p.is(500, 2600)
	for range 2 {
		p.LeaseHorizon(p.index, 4000)
		p.is(500, 2600)
		p.again()
	}
	p.apply(3200, commands.AppendPromote(nil))
	p.is(3200, 3200)
	p.LeaseHorizon(p.index, 4000)
	p.is(4000, 3200)
}
