package seal

import (
	"crypto/hkdf"
	"crypto/sha256"
	"testing"
)

// TestExpand compares the derivation of keys with that of the standard library.
func TestExpand(t *testing.T) {
	parent := Key{1, 2, 31: 3}
	for n := range 300 {
		info := make([]byte, n)
		for i := range info {
			info[i] = byte(i * n)
		}
		want, err := hkdf.Expand(sha256.New, parent[:], string(info), KeyBytes)
		if got := expand(&parent, info); err != nil || string(got[:]) != string(want) {
			t.Fatalf("%d bytes: %x, want %x, %v", n, got[:], want, err)
		}
	}
}

// TestKeptKeys: what a tenant keeps is bounded, and is with one user at a time.
func TestKeptKeys(t *testing.T) {
	var k keyCache
	for i := range uint64(2 * keptChains) {
		k.put(keptChain{chain: i}, &chainKeys{chain: i})
	}
	last := keptChain{chain: 2*keptChains - 1}
	if len(k.kept) != keptChains || k.take(last).chain != last.chain || k.take(last) != nil {
		t.Errorf("%d chains are kept, want %d", len(k.kept), keptChains)
	}
}
