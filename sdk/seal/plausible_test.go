package seal

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestMaxRecords: a sum of more readings than the schema was made for may have overflowed, so it is
// refused and not shown, also if it authenticates.
func TestMaxRecords(t *testing.T) {
	for _, mac := range []*MAC{nil, {Scope: OfTenant}} {
		tenant, s := meter(t, func(d *Definition) {
			d.MaxRecords, d.Fields[0].Max, d.MAC = 5, 1_800_000_000_000_000_000, mac
		})
		w, p := writer(t, tenant, s), NewPartial(s)
		for i := range int64(6) {
			payload := mustSeal(t, w, i, 1_800_000_000_000_000_000)
			if err := p.Add(record.Key{CID: 1, MID: 42, MOID: 7, CapNs: i}, payload); err != nil {
				t.Fatal(err)
			}
			_, err := tenant.Decrypt(context.Background(), p, Expect{})
			switch {
			case i < 5 && err != nil:
				t.Errorf("%d readings: %v", i+1, err)
			case i == 5 && (!errors.Is(err, ErrUnexpected) ||
				!strings.Contains(err.Error(), "max_records of schema 7 is 5")):
				t.Errorf("6 readings: %v", err)
			}
		}
	}
}

// TestOtherKeys: sums and readings that are decrypted with other keys of the same id are an error,
// not numbers, also without a MAC. One in 2^43 of them is within the bounds of this schema.
func TestOtherKeys(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		tenant, s := meter(t, func(d *Definition) {
			d.Fields[0].SumSquares = r.IntN(2) == 0
			d.Fields[0].Histogram = [][]int64{nil, {0}, {-5, 5}}[r.IntN(3)]
		})
		w, p, k := writer(t, tenant, s), NewPartial(s), record.Key{CID: 1, MID: 42, MOID: 7}
		var payload []byte
		for i := range 1 + r.Int64N(9) {
			payload, k.CapNs = mustSeal(t, w, i, r.Int64N(2_000_001)-1_000_000), i
			if err := p.Add(k, payload); err != nil {
				t.Fatal(err)
			}
		}
		var keys MemoryKeyring
		keys.Add(1, mustCurrent(t, tenant), Key{1})
		other, err := OpenTenant(&keys, 1, s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Decrypt(context.Background(), p, Expect{}); !errors.Is(err,
			ErrImplausible) {
			t.Errorf("seed %d: %v", seed, err)
		}
		if _, err := other.Open(context.Background(), k, payload); !errors.Is(err,
			ErrImplausible) {
			t.Errorf("seed %d: a reading: %v", seed, err)
		}
		if _, err := tenant.Decrypt(context.Background(), p, Expect{}); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func mustCurrent(t *testing.T, tenant *Tenant) uint32 {
	t.Helper()
	id, err := tenant.current(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestSumOfKeys: sums of several keys are authenticated by the MAC of each, and a change in one of
// them is noticed, of which a sum over all keys says nothing.
func TestSumOfKeys(t *testing.T) {
	ctx := context.Background()
	tenant, s := meter(t, func(d *Definition) { d.MAC = &MAC{OfTenant} })
	keys := tenant.keyring.(*MemoryKeyring)
	all, parts, k := NewPartial(s), []*Partial{}, record.Key{CID: 1, MOID: 7}
	for i := range int64(3) {
		p := NewPartial(s)
		for k.MID = range int64(4) {
			w, err := tenant.NewWriter(ctx, s, k.MID, 7)
			if err != nil {
				t.Fatal(err)
			}
			payload := mustSeal(t, w, i, 10*i+k.MID)
			for _, to := range []*Partial{p, all} {
				if err := to.Add(k, payload); err != nil {
					t.Fatal(err)
				}
			}
		}
		parts = append(parts, p)
		keys.Generate(1)
	}
	if n := len(all.KeyIDs()); n != 3 {
		t.Errorf("%d keys, want 3", n)
	}
	expect := Expect{RequireMAC: true, MinCount: 12, MaxCount: 12}
	if _, err := tenant.Decrypt(ctx, all, expect); !errors.Is(err, ErrUnexpected) {
		t.Errorf("over all keys: %v", err)
	}
	sums, err := tenant.DecryptAll(ctx, parts, expect)
	if err != nil || !sums.Authentic || sums.Count() != 12 || sums.lanes[0] != wideOf(138) {
		t.Fatalf("%+v, %v", sums, err)
	}
	expect.MinCount = 13
	if _, err := tenant.DecryptAll(ctx, parts, expect); err == nil ||
		!strings.Contains(err.Error(), "sum of 12 readings: at least 13") {
		t.Errorf("few: %v", err)
	}
	if _, err := tenant.DecryptAll(ctx, append(parts, parts[1]), Expect{}); !errors.Is(err,
		ErrDuplicate) {
		t.Errorf("a part twice: %v", err)
	}
	parts[1].lanes[0] = parts[1].lanes[0].plus(wideOf(1))
	if _, err := tenant.DecryptAll(ctx, parts, Expect{}); !errors.Is(err, ErrTampered) {
		t.Errorf("a changed part: %v", err)
	}
}
