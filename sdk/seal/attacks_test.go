package seal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// The pitfalls of such a design, in the words of the list that it was made by, and their tests.
//
//  1. Same (chain, seq) for two plaintexts reveals their difference: TestReuseLeaks.
//  2. Same (window, version) for two tokens reveals the late record: TestTokenReuseLeaks.
//  3. cap or a server-assigned number as identifier, never: TestCapAsIdentifierLeaks.
//  4. F(0) anchor, seq starts at 1, seq 2^32-1 ends the chain: TestFirstNumberHasAnAnchor,
//     TestAnotherChain.
//  5. Lane overflow wraps silently, the schema proves the bound, the MAC also catches it:
//     TestOverflowIsRefused, TestMACCatchesOverflow.
//  6. Truncated blind index inside a sum, false positives: TestShortTagsCollide.
//  7. MAC modulo 2^64 is forgeable with 2^63: TestForgery.
//  8. memcmp on CLWW bytes: TestOrderTags.
//  9. Tenant-scope ORE keys on field devices: TestStolenDeviceSearches.
//  10. Duplicate ids in merged answers, reject: TestTampering.
//  11. Run lists from different kids or chains must not be coalesced: TestChainsStayApart.
//  12. AES scratch escaping through the interface, not goroutine-safe: TestScratch.
//  13. A run list may be larger than the data at about 1 % random selectivity: TestSizeOfRuns.
//  14. Fork or snapshot of a live writer: TestAnotherChain, TestReuseLeaks.
//  15. Differencing of two sums, for a grant: TestDifferencesOfWindows.
//  16. Delta corrections need count lane 0 and one writer per series: TestDeltaCounts.
//  17. Unknown version, suite or flag bits, reject: TestUnknownIsRefused.

// TestCapAsIdentifierLeaks: with the cap of a record as the number of its pad, a correction, which
// has the cap of what it corrects, would tell the difference. Sequence numbers count what a writer
// seals, whatever its cap is.
func TestCapAsIdentifierLeaks(t *testing.T) {
	tenant, s := meter(t, nil)
	w := writer(t, tenant, s)
	pads := w.chain.pads[0]
	byCap := func(capNs uint64, v int64) wide { // what such a design would store
		c := wideOf(v).plus(loadLane(bytes.Clone(pads.row(capNs)), 8))
		return c.minus(loadLane(pads.row(capNs-1), 8))
	}
	if d := byCap(900, 1066).minus(byCap(900, 1000)); d != wideOf(66) {
		t.Errorf("the attack finds %v; it should find 66", d)
	}
	for i, capNs := range []int64{900, 900, 5, math.MaxInt64, -1, 900} {
		h, err := ParseHeader(mustSeal(t, w, capNs, 1000))
		if err != nil || h.Seq != uint32(i+1) {
			t.Errorf("cap %d has number %d, want %d, %v", capNs, h.Seq, i+1, err)
		}
	}
}

// TestMACCatchesOverflow: a device that ignores the bounds of the schema makes a sum wrap. Without
// a MAC it is wrong unnoticed.
func TestMACCatchesOverflow(t *testing.T) {
	for _, mac := range []*MAC{nil, {}} {
		tenant, s := meter(t, func(d *Definition) { d.MAC = mac })
		s.def.Fields[0].Max = math.MaxInt64 // as the device does, after the schema was laid out
		w := writer(t, tenant, s)
		p, key := NewPartial(s), record.Key{CID: 1, MID: 42, MOID: 7}
		for range 2 {
			if err := p.Add(key, mustSeal(t, w, 0, 1<<62)); err != nil {
				t.Fatal(err)
			}
		}
		sums, err := tenant.Decrypt(context.Background(), p, Expect{})
		if mac != nil {
			if !errors.Is(err, ErrTampered) {
				t.Errorf("a sum that wrapped passes its MAC: %v", err)
			}
		} else if err != nil || sums.lanes[0] != wideOf(math.MinInt64) {
			t.Errorf("the sum is %v, %v; it should wrap", sums, err)
		}
	}
}

// TestShortTagsCollide: of some thousand values, some have equal tags of two bytes, and a sum by
// such a tag would be of others, too. Tags have eight bytes, and a schema cannot ask for fewer.
func TestShortTagsCollide(t *testing.T) {
	h := newEqualHash(&Key{1})
	short, full := map[[2]byte]bool{}, map[[tagBytes]byte]bool{}
	const values = 3000
	for v := range int64(values) {
		tag := h.tag(nil, Number, Value{Number: v})
		short[[2]byte(tag)], full[[tagBytes]byte(tag)] = true, true
	}
	if len(short) > values-10 || len(full) != values {
		t.Errorf("%d values have %d short tags and %d tags", values, len(short), len(full))
	}
	source, err := json.Marshal(map[string]any{"schema": 1, "max_records": 9, "envelope": true,
		"fields": []any{map[string]any{"id": 1, "name": "x", "kind": "text",
			"equal": map[string]any{"bits": 16}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseSchema(source); err == nil || !strings.Contains(err.Error(), "bits") {
		t.Errorf("a schema with shorter tags: %v", err)
	}
}

// TestStolenDeviceSearches: with the tenant's scope, who has the order key of one device reads the
// value of any other by some thirty comparisons. With the device's scope that gives nonsense.
func TestStolenDeviceSearches(t *testing.T) {
	const secret = 123_456
	search := func(scope Scope) int64 {
		tenant, s := meter(t, func(d *Definition) {
			d.Fields[0].Order = &Order{Scope: scope, AcknowledgeLeakage: true}
		})
		victim := mustSeal(t, writer(t, tenant, s), 0, secret)
		tag := victim[s.order[0].offset:][:s.order[0].width]
		stolen, err := tenant.NewWriter(context.Background(), s, 43, 7)
		if err != nil {
			t.Fatal(err)
		}
		low, high := int64(-1e6), int64(1e6)
		for low < high {
			middle := low + (high-low)/2
			mine := stolen.order[0].tag(nil, &s.def.Fields[0], s.order[0].width, middle)
			if CompareOrder(tag, mine) > 0 {
				low = middle + 1
			} else {
				high = middle
			}
		}
		return low
	}
	if got := search(OfTenant); got != secret {
		t.Errorf("the attack on the tenant's scope finds %d; it should find %d", got, secret)
	}
	if got := search(OfDevice); got == secret {
		t.Error("the attack passes with the device's scope")
	}
}

// TestScratch: blocks of the cipher are kept in the writer, so that a lean record costs no memory,
// and writers share nothing, so that each goroutine may have one.
func TestScratch(t *testing.T) {
	tenant, s := meter(t, nil)
	w, dst := writer(t, tenant, s), make([]byte, 0, 64)
	r := Reading{Values: []Value{{Number: 5}}}
	if n := testing.AllocsPerRun(200, func() {
		if _, err := w.Append(dst[:0], r); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a lean record", n)
	}
	sums := make([]*Partial, 4)
	var wg sync.WaitGroup
	for i := range sums {
		sums[i] = NewPartial(s)
		wg.Go(func() {
			key := record.Key{CID: 1, MID: int64(i), MOID: 7}
			w, err := tenant.NewWriter(context.Background(), s, key.MID, 7)
			for v := int64(0); v < 300 && err == nil; v++ {
				var payload []byte
				payload, err = w.Append(nil, Reading{Values: []Value{{Number: v}}})
				if err == nil {
					err = sums[i].Add(key, payload)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range sums[1:] {
		if err := sums[0].Merge(p); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tenant.Decrypt(context.Background(), sums[0], Expect{})
	if err != nil || got.lanes[0] != wideOf(4*299*150) {
		t.Errorf("sum %v, %v", got, err)
	}
}

// TestSizeOfRuns: a random choice of one in a hundred is the most expensive one to name: more than
// two bytes for each record, a quarter of a lane of eight. No list is larger than its bitmap.
func TestSizeOfRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, c := range []struct{ share, most float64 }{{0.001, 3.2}, {0.01, 2.6}, {0.1, 1.3},
		{0.5, 0.26}, {0.9, 0.15}, {0.999, 0.01}, {1, 0.001}} {
		var all runs
		chosen := 0
		const span = 100_000
		for seq := uint32(1); seq <= span; seq++ {
			if r.Float64() >= c.share {
				continue
			}
			chosen++
			var err error
			if all, err = all.add(seq); err != nil {
				t.Fatal(err)
			}
		}
		size := len(all.append(nil))
		if each := float64(size) / float64(chosen); each > c.most || size > span/8+16 {
			t.Errorf("a share of %v: %d bytes, %.3f for each record, want at most %v", c.share,
				size, each, c.most)
		}
	}
}

// TestDeltaCounts: a correction by difference adds no reading, moves its bucket, and is right only
// if its writer knows what it corrects: of two that correct one value, the sum has both changes.
func TestDeltaCounts(t *testing.T) {
	tenant, s := meter(t, func(d *Definition) {
		d.Envelope, d.Fields[0].Histogram = true, []int64{100}
	})
	w := writer(t, tenant, s)
	p, key := NewPartial(s), record.Key{CID: 1, MID: 42, MOID: 7}
	add := func(v int64, before ...Value) {
		t.Helper()
		r := Reading{Values: []Value{{Number: v}}, Before: before}
		payload, err := w.Append(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Add(key, payload); err != nil {
			t.Fatal(err)
		}
	}
	want := func(sum string, low, high uint64) {
		t.Helper()
		sums, err := tenant.Decrypt(context.Background(), p, Expect{})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := sums.Sum("energy")
		buckets, _ := sums.Histogram("energy")
		if sums.Count() != 1 || got != sum || buckets[0] != low || buckets[1] != high {
			t.Errorf("%d readings, sum %s, buckets %v, want 1, %s, [%d %d]", sums.Count(), got,
				buckets, sum, low, high)
		}
	}
	add(50)
	add(150, Value{Number: 50})
	want("0.150", 0, 1)
	add(60, Value{Number: 50}) // of another writer, which did not see the one before
	want("0.160", 0, 1)
	lean, leanSchema := meter(t, nil)
	if _, err := writer(t, lean, leanSchema).Append(nil, Reading{Values: []Value{{Number: 2}},
		Before: []Value{{Number: 1}}}); err == nil {
		t.Error("a correction by difference without an envelope, which would hide its value")
	}
}
