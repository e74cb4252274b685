package record

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNameClaimKeys: names have the keys that stores have of them, all are distinct, and those that
// are near by mid are near by cap.
func TestNameClaimKeys(t *testing.T) {
	want := Key{CID: 1, MID: 423_944, MOID: NameMOID, CapNs: -4_145_398_933_339_411_334}
	if key := NameClaimKey(1, "oulu/t7"); key != want {
		t.Errorf("oulu/t7 has %+v, want %+v", key, want)
	}
	keys := make([]Key, 50_000)
	ranges := map[int64]bool{}
	for i := range keys {
		keys[i] = NameClaimKey(2, fmt.Sprint("site/", i))
		ranges[keys[i].MID>>8] = true
		if keys[i].MID < 0 || keys[i].MID >= 1<<22 || keys[i].CapNs >= 0 {
			t.Fatalf("name %d has %+v", i, keys[i])
		}
	}
	if len(ranges) < 15_000 {
		t.Errorf("names have %d device ranges, of about as many as there are slots", len(ranges))
	}
	slices.SortFunc(keys, Key.Compare)
	for i := range keys[1:] {
		a, b := keys[i], keys[i+1]
		if a == b {
			t.Fatalf("two names have %+v", a)
		}
		if a.MID>>10 < b.MID>>10 && a.CapNs >= b.CapNs {
			t.Fatalf("%+v and %+v are not in one order", a, b)
		}
	}
}

// TestParseNameClaim reads claims of random names, and none with the key of another name.
func TestParseNameClaim(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 1000 {
		name := fmt.Sprintf("%x", rng.Uint64())[:1+rng.IntN(4)]
		key, id := NameClaimKey(int32(rng.IntN(3)), name), FirstGivenID+rng.Int64N(1<<50)
		key.AcqNs = rng.Int64()
		payload := AppendNameClaim(nil, id, name)
		mid, got, err := ParseNameClaim(key, payload)
		if err != nil || mid != id || got != name {
			t.Fatalf("%q of %d: %d, %q, %v", name, id, mid, got, err)
		}
		for _, bend := range []func(*Key){func(k *Key) { k.MID++ }, func(k *Key) { k.CapNs-- },
			func(k *Key) { k.MOID++ }} {
			other := key
			bend(&other)
			if _, _, err := ParseNameClaim(other, payload); err == nil {
				t.Fatalf("%q is claimed with %+v", name, other)
			}
		}
	}
}
