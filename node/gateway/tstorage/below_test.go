package tstorage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/record"
)

func stampedAt(cid int32, cap, acq int64, payload string) ttRecord {
	r := at(cid, cap, payload)
	r.acq = acq
	return r
}

// restoring is a client that puts records with PUTA, and what it has put.
type restoring struct {
	*testing.T
	client *ttClient
	all    []ttRecord
}

func (r *restoring) put(records ...ttRecord) {
	r.Helper()
	least, most, st, err := r.client.put(true, records...)
	if err != nil || st != 0 {
		r.Fatalf("status %d, %v", st, err)
	}
	acqs := []int64{}
	for _, one := range records {
		acqs = append(acqs, one.acq)
		if !slices.Contains(r.all, one) {
			r.all = append(r.all, one)
		}
	}
	if least != slices.Min(acqs) || most != slices.Max(acqs) {
		r.Fatalf("acqs %d to %d, want %d to %d", least, most, slices.Min(acqs), slices.Max(acqs))
	}
}

// TestPutAAny puts records at acqs of long ago, in any order and many at the same, into a node that
// has records of now and whose horizon was asked for; some come twice. Everything is found by its
// acq, in the place among versions that it gives, also after the node was closed and opened.
func TestPutAAny(t *testing.T) {
	opt := node.Options{Dir: t.TempDir()}
	n := openNode(t, opt)
	var text syncBuffer
	s := serve(t, Options{Database: n, PutA: PutAAny,
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	c := ttDial(t, s)
	now := at(1, 1, "now")
	now.acq, _ = mustPut(t, c, now)
	r := &restoring{T: t, client: c}
	r.put(now) // it is there
	r.put(stampedAt(1, 1, 55555, "c"), stampedAt(1, 1, 10, "a"), stampedAt(1, 1, 11, "b"))
	r.put(stampedAt(2, 7, 11, "of another tenant"), stampedAt(1, 1, 11, "b"))
	var zeros []ttRecord
	for i := range int64(1000) {
		zeros = append(zeros, stampedAt(int32(i%2), 1000-i, 0, fmt.Sprint(i)))
	}
	r.put(zeros...)
	r.put(stampedAt(3, 1, math.MinInt64, "the first moment"), stampedAt(3, 1, -1, "before 2001"))
	exactly(t, mustGet(t, c), r.all)
	stored := s.Stats().Below
	for range 2 {
		r.put(zeros...)
		r.put(r.all...)
	}
	exactly(t, mustGet(t, c), r.all)
	if st := s.Stats(); st.Below != stored || stored != int64(len(r.all)-1) ||
		st.Duplicates < 4*int64(len(zeros)) {
		t.Errorf("%+v, %d records", st, len(r.all))
	}
	if !strings.Contains(text.String(), "below the horizon") {
		t.Errorf("nothing is logged: %s", text.String())
	}
	wantZeros(t, c, zeros)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openNode(t, opt)
	r.client = ttDial(t, serve(t, Options{Database: n, PutA: PutAAny}))
	r.put(zeros...)
	exactly(t, mustGet(t, r.client), r.all)
	wantLatest(t, n, map[int64]string{time.Now().UnixNano(): "now", toUnix(55556): "c",
		toUnix(55555): "b", toUnix(11): "a", toUnix(10): "999"})
}

// wantZeros asks for the records with acq 0.
func wantZeros(t *testing.T, c *ttClient, zeros []ttRecord) {
	t.Helper()
	from, to := ttMin(), ttMax()
	from.acq, to.acq = 0, 1
	got, horizon, st, err := c.get(from, to)
	if err != nil || st != 0 || horizon != 1 {
		t.Fatalf("horizon %d, status %d, %v", horizon, st, err)
	}
	exactly(t, got, zeros)
	if acq, st, err := c.getAcq(from, to); err != nil || st != 0 || acq != 1 {
		t.Errorf("GETACQ: %d, status %d, %v", acq, st, err)
	}
}

// wantLatest asks for the reading of tenant 1 with cap 1 at moments.
func wantLatest(t *testing.T, n *node.Node, want map[int64]string) {
	t.Helper()
	for moment, payload := range want {
		q := &record.Query{View: record.ViewAsOf, AsOfAcqNs: moment}
		q.Box[record.CID], q.Box[record.Cap] = record.RangeSet{record.At(1)},
			record.RangeSet{record.At(toUnix(1))}
		var got []string
		_, err := n.Query(t.Context(), q, func(b *record.Batch) error {
			for i := range b.Len() {
				got = append(got, string(b.Payload(i)))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, []string{payload}) {
			t.Errorf("as of %d: %q, want %q, %v", moment, got, payload, err)
		}
	}
}

// TestPutAAnyRefuses what lies in the future, and another payload for what is there.
func TestPutAAnyRefuses(t *testing.T) {
	s := serve(t, Options{Database: openNode(t, node.Options{}), PutA: PutAAny})
	c := ttDial(t, s)
	f := func(what string, want int32, records ...ttRecord) {
		t.Helper()
		if _, _, st, err := c.put(true, records...); err != nil || st != want {
			t.Errorf("%s: status %d, want %d, %v", what, st, want, err)
		}
	}
	f("the first", 0, stampedAt(1, 1, 10, "a"))
	f("another payload", stInvalid, stampedAt(1, 1, 10, "b"))
	f("two payloads", stInvalid, stampedAt(1, 2, 11, "a"), stampedAt(1, 2, 11, "b"),
		stampedAt(1, 2, 11, "c"))
	f("the reserved maximum", 0, stampedAt(1, 1, math.MaxInt64, "a"))
	f("the future", stInvalid, stampedAt(1, 1, edge-1, "a"))
	f("where the shift goes around the end", stInvalid, stampedAt(1, 1, edge, "a"))
	f("beyond it", stInvalid, stampedAt(1, 1, math.MaxInt64-1, "a"))
	f("the past beside the future", stInvalid, stampedAt(1, 9, 10, "a"), stampedAt(1, 1, edge, "a"))
	for _, r := range mustGet(t, c) {
		if r.acq > 11 || r.payload == "b" && r.acq == 10 {
			t.Errorf("%+v is stored", r)
		}
	}
}

// TestRefusedPutAStoresNothing refuses requests whose first records could be stored: none is, as a
// client that is refused sends them again, or gives up.
func TestRefusedPutAStoresNothing(t *testing.T) {
	n := openNode(t, node.Options{})
	c := ttDial(t, serve(t, Options{Database: n, PutA: PutAAny}))
	seed := stampedAt(1, 1, 10, "a")
	mustPutA(t, c, seed)
	at := func(acq int64, count int) (all []ttRecord) {
		for i := range count {
			all = append(all, stampedAt(1, int64(100+i), acq, "x"))
		}
		return all
	}
	refused := func(what string, records ...ttRecord) {
		t.Helper()
		if _, _, st, err := c.put(true, records...); err != nil || st != stInvalid {
			t.Errorf("%s: status %d, want %d, %v", what, st, stInvalid, err)
		}
		exactly(t, mustGet(t, c), []ttRecord{seed})
	}
	now := fromUnix(time.Now().UnixNano()) - 1e9
	refused("another payload for what is there", stampedAt(1, 5, 9, "b"), stampedAt(1, 5, now, "c"),
		stampedAt(1, 1, 10, "b"))
	refused("two payloads", stampedAt(1, 2, 11, "a"), stampedAt(1, 2, 11, "b"))
	refused("what is there with another payload, above and below", stampedAt(1, 6, now+1, "a"),
		stampedAt(1, 1, 10, "b"))
	many := slices.Concat(at(600, 1<<15), at(601, 1<<15)) // as many as one put takes
	refused("many, and then what cannot be", append(many, stampedAt(1, 100, 601, "y"))...)
	full := at(600, 1<<15+1)
	mustPutA(t, c, full...)
	exactly(t, mustGet(t, c), append(full, seed))
}

// mustPutA stores records with their acqs.
func mustPutA(t *testing.T, c *ttClient, records ...ttRecord) {
	t.Helper()
	if _, _, st, err := c.put(true, records...); err != nil || st != 0 {
		t.Fatalf("status %d, %v", st, err)
	}
}
