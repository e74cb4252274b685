package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestKeyFile: keys survive, others may not read them, and no text shows one.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	r, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := r.Keys(ctx, 1); !errors.Is(err, ErrNoKey) {
		t.Errorf("no key yet: %v", err)
	}
	var ids []uint32
	for range 2 {
		id, err := r.Generate(1)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	first, err := r.Root(ctx, 1, ids[0])
	if err != nil || first.ID() != ids[0] {
		t.Fatalf("key %08x has the id %08x, %v", ids[0], first.ID(), err)
	}
	again, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := again.Root(ctx, 1, ids[0]); err != nil || k != first {
		t.Errorf("the key is another one after opening: %v", err)
	}
	if kept, err := again.Keys(ctx, 1); err != nil || !slices.Equal(kept, ids) {
		t.Errorf("keys %08x, want %08x, %v", kept, ids, err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFileKeyring(path)
		if err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file that others may read: %v", err)
		}
	}
}

// TestKeyFileDamage: whichever digit or letter of a file of keys is another one, with random keys
// of devices and one that was destroyed, it is refused, and the file and what to do are named.
func TestKeyFileDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	r, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Generate(1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.GenerateShreddable(1); err != nil {
		t.Fatal(err)
	}
	tenant, err := OpenTenant(r, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tenant.AddDevices(context.Background(), 7, 8); err != nil {
		t.Fatal(err)
	}
	if _, err := r.DestroyDevice(1, 8, time.Now()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range whole {
		if c <= ' ' {
			continue // white space means nothing
		}
		changed := bytes.Clone(whole)
		changed[i] = c ^ 1
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFileKeyring(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d, %q in place of %q: %v", i, c^1, c, err)
		}
	}
	digit := bytes.Index(whole, []byte(`"key": "`)) + 8
	changed := bytes.Clone(whole)
	changed[digit] ^= 1
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFileKeyring(path); err == nil ||
		!strings.Contains(err.Error(), "damaged, or was changed by hand: tenant 1: key 1 of it") ||
		!strings.Contains(err.Error(), "restore a copy of it") {
		t.Errorf("a digit of a key: %v", err)
	}
}

// TestKeysAreNotMixedUp: another file of keys, as one makes after the first was lost, does not have
// the key of a payload, and says which keys it has.
func TestKeysAreNotMixedUp(t *testing.T) {
	ctx := context.Background()
	tenant, s := meter(t, nil)
	other, _ := meter(t, nil)
	payload, p := mustSeal(t, writer(t, tenant, s), 0, 5), NewPartial(s)
	k := record.Key{CID: 1, MID: 42, MOID: 7}
	if err := p.Add(k, payload); err != nil {
		t.Fatal(err)
	}
	other.schemas = tenant.schemas
	_, openErr := other.Open(ctx, k, payload)
	_, sumErr := other.Decrypt(ctx, p, Expect{})
	for what, err := range map[string]error{"open": openErr, "sum": sumErr} {
		want := fmt.Sprintf("key %08x of tenant 1: the keyring has no such key: of tenant 1, the "+
			"keyring has %08x only", mustCurrent(t, tenant), mustCurrent(t, other))
		if !errors.Is(err, ErrNoKey) || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}

// TestFirstKey: of several that make the first key of a tenant at the same time one makes it, and
// the others are told which one it is.
func TestFirstKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	ids, errs := make([]uint32, 8), make([]error, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			r, err := OpenFileKeyring(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i], errs[i] = r.GenerateFirst(1, i%2 == 0)
		})
	}
	wg.Wait()
	made := 0
	for i, err := range errs {
		if err == nil {
			made++
		} else if !errors.Is(err, ErrHasKey) {
			t.Error(err)
		}
		if ids[i] != ids[0] {
			t.Errorf("key %08x, and another has %08x", ids[i], ids[0])
		}
	}
	if made != 1 {
		t.Errorf("%d made the first key", made)
	}
}
