package nodesync_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// lossyTarget loses requests and answers.
type lossyTarget struct {
	*client.Client
	rng *rand.Rand
}

func (l *lossyTarget) Put(
	ctx context.Context, b *record.Batch, writer [16]byte, seq uint64,
) (wire.PutReply, error) {
	if l.rng.IntN(10) == 0 {
		return wire.PutReply{}, errLost
	}
	reply, err := l.Client.Put(ctx, b, writer, seq)
	if l.rng.IntN(10) == 0 {
		return wire.PutReply{}, errLost
	}
	return reply, err
}

func (l *lossyTarget) Erase(ctx context.Context, box *wire.Box) (int64, error) {
	acq, err := l.Client.Erase(ctx, box)
	if l.rng.IntN(5) == 0 {
		return 0, errLost
	}
	return acq, err
}

// versionsOf returns the versions of each reading of two tenants in the order of acq.
func versionsOf(s *served, view record.View) map[record.Key][]string {
	s.t.Helper()
	all := map[record.Key][]string{}
	q := &record.Query{View: view, Order: record.OrderAcq,
		Box: record.Box{record.CID: {{From: 0, To: 2}}}}
	for r, err := range s.Query(s.t.Context(), q) {
		if err != nil {
			s.t.Fatal(err)
		}
		r.Key.AcqNs = 0
		all[r.Key] = append(all[r.Key], fmt.Sprintf("%x %v", r.Payload, r.Tomb))
	}
	return all
}

// TestRestampModel ships two tenants to a node that holds others, over lost requests and restarts,
// and wants each version to be there once, in order, and what was erased to be erased.
func TestRestampModel(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{SealRows: 900}), serve(t, store.Options{Shards: 4})
	others := &record.Batch{}
	for i := range int64(50) {
		others.Append(record.Key{CID: 7, MID: i}, []byte("other"))
	}
	if _, err := to.Put(t.Context(), others, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	var kept []byte
	opt := nodesync.Options{Box: record.Box{record.CID: {{From: 0, To: 2}}}}
	for range rounds.Of(8, 5, 5) {
		for range rng.IntN(6) {
			from.fill(rng, 1+rng.IntN(800))
			box := &wire.Box{Box: record.Box{record.MID: {record.At(rng.Int64N(40))}}}
			if _, err := from.Erase(t.Context(), box); err != nil {
				t.Fatal(err)
			}
		}
		opt.SliceRows = 1 + rng.Uint64N(1500)
		for done := false; !done; {
			p := &nodesync.Position{}
			if kept != nil {
				if err := json.Unmarshal(kept, p); err != nil {
					t.Fatal(err)
				}
			}
			_, err := nodesync.Restamp(t.Context(), from, &lossyTarget{to.Client, rng}, p,
				func(p *nodesync.Position) (err error) {
					kept, err = json.Marshal(p)
					if err == nil && rng.IntN(20) == 0 {
						err = errLost // killed before it was sent
					}
					return err
				}, opt)
			if done = err == nil; !done && !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			if rng.IntN(5) == 0 {
				to.restart()
			}
		}
	}
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		here, there := versionsOf(from, view), versionsOf(to, view)
		if len(here) != len(there) || len(here) == 0 {
			t.Fatalf("view %v: %d readings, %d shipped", view, len(here), len(there))
		}
		for k, versions := range here {
			if !slices.Equal(versions, there[k]) {
				t.Fatalf("view %v: %+v is %q, shipped %q", view, k, versions, there[k])
			}
		}
	}
	left := to.rows(&record.Query{View: record.ViewLatest, Box: record.Box{
		record.CID: {record.At(7)}}})
	if len(left) != others.Len() {
		t.Fatalf("%d of %d records of others are left", len(left), others.Len())
	}
}

func TestRestampRefuses(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	from.fill(rng, 10)
	box := record.Box{record.CID: {{From: 0, To: 2}}}
	p := &nodesync.Position{}
	keep := func(*nodesync.Position) error { return nil }
	_, err := nodesync.Restamp(t.Context(), from, to, p, keep, nodesync.Options{Box: box})
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(p nodesync.Position, box record.Box, want string) {
		t.Helper()
		before := len(to.rows(&record.Query{}))
		_, err := nodesync.Restamp(t.Context(), from, to, &p, keep, nodesync.Options{Box: box})
		if !errors.Is(err, nodesync.ErrNotACopy) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if after := len(to.rows(&record.Query{})); after != before {
			t.Errorf("%d rows became %d", before, after)
		}
	}
	refuse(*p, record.Box{}, "other selectors")
	other := *p
	other.Source = "00"
	refuse(other, box, "is of store 00 into")
	other = *p
	other.Target = "00"
	refuse(other, box, "into store 00, but")
	other = *p
	other.Writer = "00"
	refuse(other, box, "is invalid")
	other = *p
	other.ToNs = 1 << 62
	refuse(other, box, "it lost records")
	if _, err := from.Erase(t.Context(), &wire.Box{Everything: true}); err != nil {
		t.Fatal(err)
	}
	refuse(nodesync.Position{}, record.Box{}, "select tenants")
	_, err = from.Erase(t.Context(), &wire.Box{Box: record.Box{record.Acq: {{From: 0, To: 9}}}})
	if err != nil {
		t.Fatal(err)
	}
	refuse(*p, box, "selects acqs")
}
