package client_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// billed is a stupid model of what is to be billed: every version that was ever put, and which of
// them an erase or purge has hidden.
type billed struct {
	versions []record.Record
	hidden   []bool
}

// bills are the sums of the latest versions.
func (m *billed) bills() map[int64]float64 {
	latest := map[reading]int{}
	for i := range m.versions {
		at := readingOf(&m.versions[i])
		if old, ok := latest[at]; !m.hidden[i] &&
			(!ok || m.versions[old].AcqNs < m.versions[i].AcqNs) {
			latest[at] = i
		}
	}
	out := map[int64]float64{}
	for at, i := range latest {
		out[at.mid] += kWhOf(&m.versions[i])
	}
	return out
}

// hide hides the versions of a box.
func (m *billed) hide(box *record.Box) {
	for i := range m.versions {
		m.hidden[i] = m.hidden[i] || box.Contains(m.versions[i].Key)
	}
}

// TestBillingAgainstModel bills what a random history of readings, corrections, deletions, erases
// and purges leaves, in runs that are killed anywhere, and compares that with a model. It is the
// consumer of ExampleClient_Changes.
func TestBillingAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	db, err := client.Dial(t.Context(), n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	m := &billed{}
	l := &ledger{kWh: map[reading]float64{}, bills: map[int64]float64{}}
	for range 25 {
		for range 1 + rng.IntN(12) {
			m.step(t, rng, db)
		}
		follow(t, db, l, 1+rng.IntN(20))
	}
	follow(t, db, l, math.MaxInt)
	want := m.bills()
	for mid := range int64(4) {
		if l.bills[mid] != want[mid] {
			t.Errorf("device %d: %g are billed, want %g", mid, l.bills[mid], want[mid])
		}
	}
}

// step puts, corrects, deletes or hides.
func (m *billed) step(t *testing.T, rng *rand.Rand, db *client.Client) {
	t.Helper()
	if len(m.versions) > 0 && rng.IntN(5) == 0 {
		var box wire.Box
		box.Box[record.MID] = record.RangeSet{record.At(rng.Int64N(4))}
		if rng.IntN(2) == 0 {
			box.Box[record.Cap] = record.RangeSet{{From: rng.Int64N(5), To: 5}}
		}
		if rng.IntN(2) == 0 { // some versions of readings, older or newer ones
			r := record.Range{From: m.versions[rng.IntN(len(m.versions))].AcqNs, To: math.MaxInt64}
			if rng.IntN(2) == 0 {
				r = record.Range{From: math.MinInt64, To: r.From}
			}
			box.Box[record.Acq] = record.RangeSet{r}
		}
		hide := db.Erase
		if rng.IntN(3) == 0 {
			hide = db.Purge
		}
		if _, err := hide(t.Context(), &box); err != nil {
			t.Fatal(err)
		}
		m.hide(&box.Box)
		return
	}
	var b record.Batch
	for range 1 + rng.IntN(3) {
		k := record.Key{CID: 1, MID: rng.Int64N(4), MOID: rng.Int32N(2), CapNs: rng.Int64N(5)}
		if rng.IntN(4) == 0 {
			b.AppendTomb(k)
			continue
		}
		kWh := math.Float64bits(float64(rng.IntN(40)) / 4)
		b.Append(k, binary.LittleEndian.AppendUint64(nil, kWh))
	}
	reply, err := db.Put(t.Context(), &b, [16]byte{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	q := &record.Query{}
	q.Box[record.Acq] = record.RangeSet{{From: reply.FirstAcqNs, To: reply.LastAcqNs + 1}}
	for r, err := range db.Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		r.Payload = append([]byte(nil), r.Payload...)
		m.versions, m.hidden = append(m.versions, r), append(m.hidden, false)
	}
}

// follow bills up to n changes, and ends at what the node has now. Killed in the middle, it goes on
// later where it was.
func follow(t *testing.T, db *client.Client, l *ledger, n int) {
	t.Helper()
	until, err := db.Horizon(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for ch, err := range db.Changes(t.Context(), &record.Query{}, l.closedNs) {
		if err != nil {
			t.Fatal(err)
		}
		if err := l.apply(t.Context(), db, &ch); err != nil {
			t.Fatal(err)
		}
		if n--; n == 0 || l.closedNs >= until {
			return
		}
	}
}
