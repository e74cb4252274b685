package nodesync_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// serveCluster starts a cluster of one node and some groups.
func serveCluster(t *testing.T) *served {
	t.Helper()
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, opt: node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Fail: func(err error) { t.Errorf("the node must end: %v", err) },
		Cluster: cluster.Config{TokenFile: file, RaftBind: freeaddr.New(t), Bind: freeaddr.New(t),
			Init: true, FoundWait: 1, Groups: 4}}}
	s.start()
	t.Cleanup(s.stop)
	s.until("the cluster answers", func() error {
		_, err := s.SyncState(t.Context())
		return err
	})
	return s
}

// until tries until there is no error.
func (s *served) until(what string, try func() error) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(5 * time.Minute) // a slow machine is no failure
	for err := try(); err != nil; err = try() {
		select {
		case <-tick.C:
		case <-timeout:
			s.t.Fatalf("waited five minutes until %s: %v", what, err)
		}
	}
}

// A node has an exact copy in a cluster, and that one in a node, until it is promoted.
func TestCopyIntoACluster(t *testing.T) {
	rng := seeded(t)
	from, middle := serve(t, store.Options{SealRows: 900}), serveCluster(t)
	to := serve(t, store.Options{Shards: 4})
	from.fill(rng, 3000)
	for range 3 {
		for range 12 {
			from.change(rng)
		}
		from.copied = from.ages
		opt := nodesync.Options{SliceRows: 1 + rng.Uint64N(1500)}
		for _, pair := range [][2]*served{{from, middle}, {middle, to}} {
			middle.until("a copy is made", func() error {
				_, err := nodesync.Copy(t.Context(), pair[0], pair[1], opt)
				return err
			})
			got, err := nodesync.Verify(t.Context(), pair[0], pair[1], opt)
			if err != nil || got.Rows == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		st, err := middle.SyncState(t.Context())
		if err != nil || st.Groups != 0 || st.Of == [16]byte{} {
			t.Fatalf("%+v, %v", st, err)
		}
		for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
			want := from.rows(&record.Query{View: view, Box: below(st.HorizonNs)})
			source, err := from.SyncState(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(source.History.Policies, st.History.Policies) {
				continue // a retention took a step since
			}
			for _, n := range []*served{middle, to} {
				if got := n.rows(&record.Query{View: view}); !slices.Equal(got, want) {
					t.Errorf("view %v: %d rows, want %d", view, len(got), len(want))
				}
			}
		}
	}
	_, err := middle.Put(t.Context(), oneRow(), [16]byte{}, 0)
	var remote *wire.Error
	if !errors.As(err, &remote) || remote.Kind != wire.KindForbidden {
		t.Errorf("a copy takes a put: %v", err)
	}
	if err := middle.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	middle.fill(rng, 100)
	_, err = nodesync.Copy(t.Context(), middle, to, nodesync.Options{})
	if !errors.Is(err, nodesync.ErrNotACopy) {
		t.Errorf("a cluster of its own is copied: %v", err)
	}
	_, err = nodesync.Copy(t.Context(), from, middle, nodesync.Options{})
	if !errors.Is(err, nodesync.ErrNotACopy) {
		t.Errorf("copied into a cluster of its own: %v", err)
	}
}

func below(acqNs int64) record.Box {
	return record.Box{record.Acq: {{From: 0, To: acqNs}}}
}

func oneRow() *record.Batch {
	b := &record.Batch{}
	b.Append(record.Key{CID: 1, MID: 1}, []byte("x"))
	return b
}

// Records of a cluster get new acqs in a node, and those of a node in a cluster.
func TestRestampOfACluster(t *testing.T) {
	rng := seeded(t)
	from, middle := serve(t, store.Options{}), serveCluster(t)
	to := serve(t, store.Options{})
	for range 4 {
		from.fill(rng, 500)
	}
	opt := nodesync.Options{SliceRows: 300, Box: record.Box{record.CID: {{From: 0, To: 2}}}}
	keep := func(*nodesync.Position) error { return nil }
	for _, pair := range [][2]*served{{from, middle}, {middle, to}} {
		p := &nodesync.Position{}
		var rows uint64
		middle.until("records are put", func() error {
			report, err := nodesync.Restamp(t.Context(), pair[0], pair[1], p, keep, opt)
			rows += report.Rows
			if err == nil && rows < 2000 { // the horizon of a cluster comes after its records
				err = fmt.Errorf("%d records were put, want 2000", rows)
			}
			return err
		})
		for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
			here, there := versionsOf(from, view), versionsOf(pair[1], view)
			if len(here) != len(there) || len(here) == 0 {
				t.Errorf("view %v: %d readings, %d arrived", view, len(here), len(there))
			}
		}
	}
	box := &wire.Box{Box: record.Box{record.CID: {record.At(1)}}}
	if _, err := middle.Erase(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	_, err := nodesync.Restamp(t.Context(), middle, to, &nodesync.Position{}, keep, opt)
	if !errors.Is(err, nodesync.ErrNotACopy) || !strings.Contains(err.Error(), "cluster of 4") {
		t.Errorf("an erase of a cluster: %v", err)
	}
}

// fillWide puts rows of many devices, so that all groups have some.
func (s *served) fillWide(rng *mathrand.Rand, rows int) {
	s.t.Helper()
	b := &record.Batch{}
	for i := range rows {
		b.Append(record.Key{CID: 1, MID: rng.Int64N(2000), CapNs: rng.Int64N(20)},
			[]byte(fmt.Sprint(i)))
	}
	if _, err := s.Put(s.t.Context(), b, [16]byte{}, 0); err != nil {
		s.t.Fatal(err)
	}
}

// ownCluster is a cluster with records, corrections and an erase of its own.
func ownCluster(t *testing.T, rng *mathrand.Rand) *served {
	t.Helper()
	const puts, rows = 4, 600
	s := serveCluster(t)
	for i := range puts {
		if i == puts-1 {
			box := &wire.Box{Box: record.Box{record.CID: {record.At(1)},
				record.MID: {{From: 0, To: 70}}}}
			if _, err := s.Erase(t.Context(), box); err != nil {
				t.Fatal(err)
			}
		}
		s.fillWide(rng, rows)
	}
	s.until("the horizon has come", func() error {
		if got := len(s.rows(&record.Query{})); got != puts*rows {
			return fmt.Errorf("%d rows, want %d", got, puts*rows)
		}
		return nil
	})
	return s
}

// A cluster that took records itself has an exact copy in one with the same groups, a group at a
// time: with all acqs, and with what each group erased.
func TestCopyOfGroups(t *testing.T) {
	rng := seeded(t)
	from, to := ownCluster(t, rng), serveCluster(t)
	for g := 1; g <= 4; g++ {
		for run := range 2 { // the second has nothing to do
			opt := nodesync.Options{SliceRows: 200 + rng.Uint64N(200)}
			got, err := nodesync.Copy(t.Context(), from.OfGroup(g), to.OfGroup(g), opt)
			if err != nil || (got.Rows > 0) != (run == 0) {
				t.Fatalf("group %d: %+v, %v", g, got, err)
			}
		}
		if _, err := nodesync.Verify(t.Context(), from.OfGroup(g), to.OfGroup(g),
			nodesync.Options{}); err != nil {
			t.Errorf("group %d: %v", g, err)
		}
	}
	st, err := to.OfGroup(1).SyncState(t.Context())
	if err != nil || st.Of == [16]byte{} || st.Groups != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	moment := int64(0)
	half := &record.Query{Order: record.OrderAcq, Limit: 1200}
	for r, err := range from.Query(t.Context(), half) {
		if err != nil {
			t.Fatal(err)
		}
		moment = r.Key.AcqNs
	}
	for _, q := range []record.Query{{}, {View: record.ViewLatest},
		{View: record.ViewAsOf, AsOfAcqNs: moment}} {
		here, there := from.rows(&q), to.rows(&q)
		if !slices.Equal(here, there) || len(here) == 0 {
			t.Errorf("%+v: %d rows, copied %d", q, len(here), len(there))
		}
	}
	if err := to.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	ack, err := to.Put(t.Context(), oneRow(), [16]byte{}, 0)
	if err != nil || ack.FirstAcqNs < st.HorizonNs {
		t.Errorf("a promoted copy gives acq %d, after %d: %v", ack.FirstAcqNs, st.HorizonNs, err)
	}
}

// What does not fit a group is refused, and says what is wrong.
func TestCopyOfWrongGroups(t *testing.T) {
	from, to := ownCluster(t, seeded(t)), serveCluster(t)
	state := func(s *client.Client) error {
		_, err := s.SyncState(t.Context())
		return err
	}
	copied := func(of, into int) error {
		_, err := nodesync.Copy(t.Context(), from.OfGroup(of), to.OfGroup(into), nodesync.Options{})
		return err
	}
	wrong := copied(1, 2)
	for g := 1; g <= 2; g++ {
		if err := copied(g, g); err != nil {
			t.Errorf("group %d, after another was refused: %v", g, err)
		}
	}
	together := state(to.Client)
	elsewhere := record.Box{record.CID: {record.At(1)}, record.MID: {record.At(1)}}
	_, err := nodesync.Copy(t.Context(), from.OfGroup(3), to.OfGroup(3),
		nodesync.Options{Box: elsewhere})
	if err != nil {
		t.Errorf("of a device that is not in the group: %v", err)
	}
	if _, err := from.SplitGroup(t.Context(), 4, false); err != nil {
		t.Fatal(err)
	}
	var split error
	from.until("a group is split", func() error {
		if split = state(from.OfGroup(4)); split == nil {
			return errors.New("it is whole")
		}
		return nil
	})
	alone := serve(t, store.Options{})
	for want, err := range map[string]error{
		"was split":                 split,
		"of group 1 here, not of 2": wrong,
		"groups 1 to 4":             state(to.OfGroup(5)),
		"in no cluster":             state(alone.OfGroup(1)),
		"ask for one group":         together,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q: %v", want, err)
		}
	}
}
