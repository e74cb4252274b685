package seal

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestShred: after the key of a device is destroyed, nothing that it sealed can be read, and a sum
// that includes it names it. Other devices, and the same one under a newer root, go on.
func TestShred(t *testing.T) {
	tenant, s := meter(t, func(d *Definition) { d.Envelope, d.MAC = true, &MAC{OfTenant} })
	keys, ctx := tenant.keyring.(*MemoryKeyring), context.Background()
	id := keys.GenerateShreddable(1)
	p, others := NewPartial(s), NewPartial(s)
	key := record.Key{CID: 1, MOID: 7}
	var lost []byte
	for mid := range int64(3) {
		w, err := tenant.NewWriter(ctx, s, mid, 7)
		if err != nil {
			t.Fatal(err)
		}
		key.MID = mid
		payload := mustSeal(t, w, 0, 10)
		if o, err := tenant.Open(ctx, key, payload); err != nil || o.Values[0].Number != 10 {
			t.Fatalf("opened %v, %v", o.Values, err)
		}
		if err := p.Add(key, payload); err != nil {
			t.Fatal(err)
		}
		if mid == 1 {
			lost = payload
		} else if err := others.Add(key, payload); err != nil {
			t.Fatal(err)
		}
	}
	if sums, err := tenant.Decrypt(ctx, p, Expect{RequireMAC: true}); err != nil ||
		sums.Count() != 3 {
		t.Fatalf("sums before: %v", err)
	}
	states, err := keys.DestroyDevice(1, 1, time.Unix(1e9, 0))
	if err != nil || len(states) != 2 || states[0].State != DeviceDerived ||
		states[1] != (DeviceKey{id, DeviceDestroyed}) {
		t.Fatalf("destroyed: %v, %v", states, err)
	}
	named := "tenant 1, mid 1, key " + FormatKeyID(id)
	key.MID = 1
	_, openErr := tenant.Open(ctx, key, lost)
	_, sumErr := tenant.Decrypt(ctx, p, Expect{})
	_, writeErr := tenant.NewWriter(ctx, s, 1, 7)
	for what, err := range map[string]error{"open": openErr, "sum": sumErr, "write": writeErr} {
		if !errors.Is(err, ErrShredded) || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := tenant.Decrypt(ctx, others, Expect{}); err != nil {
		t.Errorf("a sum of the others: %v", err)
	}
	if _, err := keys.DestroyDevice(1, 1, time.Now()); !errors.Is(err, ErrShredded) {
		t.Errorf("destroyed twice: %v", err)
	}
	if _, err := keys.DestroyDevice(1, 2, time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := tenant.Decrypt(ctx, p, Expect{}); !errors.Is(err, ErrShredded) ||
		!strings.Contains(err.Error(), "tenant 1, 2 devices, mid 1 2: the key") {
		t.Errorf("a sum with two: %v", err)
	}
	keys.GenerateShreddable(1)
	if _, err := tenant.NewWriter(ctx, s, 1, 7); err != nil {
		t.Errorf("under a newer root: %v", err)
	}
}

// TestShredLeavesNoTags: under a root whose devices can be shredded, tags that follow from the root
// would tell values after the key of the device was destroyed, and are refused.
func TestShredLeavesNoTags(t *testing.T) {
	for _, change := range []func(f *Field){
		func(f *Field) { f.Order = &Order{Scope: OfTenant, AcknowledgeLeakage: true} },
		func(f *Field) { f.Equal = &Equal{Scope: OfTenant} },
	} {
		tenant, s := meter(t, func(d *Definition) { change(&d.Fields[0]) })
		writer(t, tenant, s) // a root that keys of devices are derived from
		tenant.keyring.(*MemoryKeyring).GenerateShreddable(1)
		if _, err := tenant.NewWriter(context.Background(), s, 42, 7); err == nil ||
			!strings.Contains(err.Error(), "after the key of a device was destroyed") {
			t.Errorf("a tag of the tenant: %v", err)
		}
	}
}

// TestWrappedKeys: a table cannot give a device the key of another one, nor one of its own making.
func TestWrappedKeys(t *testing.T) {
	tenant, s := meter(t, nil)
	keys, ctx := tenant.keyring.(*MemoryKeyring), context.Background()
	id := keys.GenerateShreddable(1)
	if err := tenant.AddDevices(ctx, 42, 43); err != nil {
		t.Fatal(err)
	}
	devices := keys.table.root(1, id).Devices
	devices[42] = devices[43]
	if _, err := tenant.NewWriter(ctx, s, 42, 7); !errors.Is(err, ErrTampered) {
		t.Errorf("the key of another device: %v", err)
	}
	if _, err := tenant.NewWriter(ctx, s, 43, 7); err != nil {
		t.Error(err)
	}
}

// TestRotation: a sum over records of three roots, the last two of which have random keys of
// devices, and which a file keeps.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	keys, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	_, s := meter(t, nil)
	ctx, p, key := context.Background(), NewPartial(s), record.Key{CID: 1, MID: 42, MOID: 7}
	for _, generate := range []func(int32) (uint32, error){keys.Generate,
		keys.GenerateShreddable, keys.GenerateShreddable} {
		want, err := generate(1)
		if err != nil {
			t.Fatal(err)
		}
		tenant, err := OpenTenant(keys, 1, s)
		if err != nil {
			t.Fatal(err)
		}
		payload := mustSeal(t, writer(t, tenant, s), 0, 5)
		if id := binary.LittleEndian.Uint32(payload[4:]); id != want {
			t.Errorf("sealed under key %08x, want %08x", id, want)
		}
		if err := p.Add(key, payload); err != nil {
			t.Fatal(err)
		}
	}
	again, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := OpenTenant(again, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := tenant.Decrypt(ctx, p, Expect{})
	if err != nil || sums.lanes[0] != wideOf(15) {
		t.Errorf("sum %v, %v", sums, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestKeyFileOfManyWriters: keys that several open files add at the same time are all there.
func TestKeyFileOfManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	first, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := first.GenerateShreddable(1)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range int64(8) {
		wg.Go(func() {
			keys, err := OpenFileKeyring(path)
			if err != nil {
				t.Error(err)
				return
			}
			tenant, err := OpenTenant(keys, 1)
			if err != nil {
				t.Error(err)
				return
			}
			if err := tenant.AddDevices(context.Background(), 100, i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all.table.root(1, id).Devices); n != 9 {
		t.Errorf("%d devices, want 9", n)
	}
}

// TestKeyFileIsWhole: a process that is killed while it rotates leaves a file that can be read,
// with all keys that it had announced.
func TestKeyFileIsWhole(t *testing.T) {
	const child = "PENTAD_TEST_ROTATE"
	if path := os.Getenv(child); path != "" {
		rotateForEver(path)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	var announced []uint32
	for range 3 {
		c := exec.Command(os.Args[0], "-test.run=^TestKeyFileIsWhole$")
		c.Env = append(os.Environ(), child+"="+path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 64)
		n, err := out.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
		text, _, _ := strings.Cut(string(line[:n]), "\n")
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		announced = append(announced, uint32(id))
		keys, err := OpenFileKeyring(path)
		if err != nil {
			t.Fatalf("after a kill: %v", err)
		}
		for _, id := range announced {
			if _, err := keys.Root(context.Background(), 1, id); err != nil {
				t.Errorf("key %08x was announced: %v", id, err)
			}
		}
	}
}

// rotateForEver writes the ids of keys that are durable.
func rotateForEver(path string) {
	keys, err := OpenFileKeyring(path)
	for err == nil {
		var id uint32
		if id, err = keys.GenerateShreddable(1); err == nil {
			_, err = os.Stdout.WriteString(strconv.FormatUint(uint64(id), 10) + "\n")
		}
	}
	os.Exit(1)
}
