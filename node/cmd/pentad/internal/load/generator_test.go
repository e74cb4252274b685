package load

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestGeneratorStays pins a few records: a seed must say the same in the next version too.
func TestGeneratorStays(t *testing.T) {
	g := Generator{CID: 5, Devices: 2, Quantities: 2, PayloadBytes: 12, Seed: 1}
	var b record.Batch
	g.Append(&b, 3, 3)
	got := ""
	for i := range b.Len() {
		k := b.Key(i)
		got += fmt.Sprintf("%d %d %d %d %s\n", k.CID, k.MID, k.MOID, k.CapNs,
			hex.EncodeToString(b.Payload(i)))
	}
	const want = "" +
		"5 3209098806876438529 2 1704067200330000000 713d0ad7a3068440b18b9140\n" +
		"5 3209098806876438528 1 1704067201606000000 0000000000506c40091b7e9a\n" +
		"5 3209098806876438528 2 1704067201908000000 52b81e85ebad7140743a3cca\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestGeneratorInParts makes the same records in batches of every size.
func TestGeneratorInParts(t *testing.T) {
	g := Generator{CID: 1, Devices: 7, Quantities: 3, PayloadBytes: 21, Seed: 42}
	const n = 500
	var whole record.Batch
	g.Append(&whole, 0, n)
	if err := whole.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{1, 3, 64, n - 1} {
		var parts record.Batch
		for from := int64(0); from < n; from += size {
			g.Append(&parts, from, min(size, n-from))
		}
		if !reflect.DeepEqual(whole, parts) {
			t.Errorf("batches of %d make other records", size)
		}
	}
	keys := map[record.Key]bool{}
	for i := range n {
		k := whole.Key(i)
		slot := int64(i / 21)
		if keys[k] || k.MID < FirstMID || k.MID >= EndMID || k.MID-g.MID(0) != int64(i%21/3) ||
			k.MOID != int32(1+i%3) || k.CapNs < SlotNs(slot) || k.CapNs >= SlotNs(slot+1) {
			t.Errorf("record %d: %+v", i, k)
		}
		keys[k] = true
	}
}

func TestGeneratorSizes(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 16, 1000} {
		g := Generator{Devices: 3, Quantities: 1, PayloadBytes: size, Seed: 1}
		var b record.Batch
		g.Append(&b, 0, 10)
		if err := b.Validate(); err != nil || len(b.Data) != 10*size {
			t.Errorf("%d bytes: %v, %d in all", size, err, len(b.Data))
		}
	}
	last := Generator{Devices: MaxDevices, Quantities: 1, Seed: 3}
	for seed := range uint64(1000) {
		last.Seed = seed
		if from, to := last.MID(0), last.MID(MaxDevices-1); from < FirstMID || to >= EndMID ||
			from>>deviceBits != to>>deviceBits {
			t.Fatalf("seed %d: devices %d to %d", seed, from, to)
		}
	}
	var b record.Batch
	one := Generator{Devices: 1, Quantities: 1, Seed: 1}
	one.Append(&b, MaxSlots-1, 2) // the last slot, and the first again
	if err := b.Validate(); err != nil || b.CapNs[0] < b.CapNs[1] || b.CapNs[1] < SlotNs(0) {
		t.Errorf("%v, %d", err, b.CapNs)
	}
}

func TestCountSlots(t *testing.T) {
	for _, want := range []int64{0, 1, 2, 3, 4, 5, 7, 8, 9, 1000, 123_456_789, MaxSlots - 1,
		MaxSlots} {
		asked := 0
		got, err := CountSlots(func(slot int64) (bool, error) {
			asked++
			if slot < 0 || slot >= MaxSlots {
				t.Fatalf("asked for slot %d", slot)
			}
			return slot < want, nil
		})
		if err != nil || got != want || asked > 70 {
			t.Errorf("%d slots, want %d; %v, asked %d times", got, want, err, asked)
		}
	}
}

// TestBoxes has every box hold something, and nothing beyond what was written.
func TestBoxes(t *testing.T) {
	f := func(devices, quantities int, slots int64) {
		t.Helper()
		b := &Boxes{Generator{CID: 9, Devices: devices, Quantities: quantities, Seed: 5}, slots}
		for n := range int64(200) {
			for kind := range NumKinds {
				box := b.Box(kind, n)
				if again := b.Box(kind, n); !reflect.DeepEqual(box, again) {
					t.Fatalf("box %d of kind %d: %v, then %v", n, kind, box, again)
				}
				mid, caps := box[record.MID][0], box[record.Cap][0]
				if mid.From < b.MID(0) || mid.To > b.MID(int64(devices)) || mid.From >= mid.To ||
					caps.From < SlotNs(0) || caps.To > SlotNs(slots) || caps.From >= caps.To {
					t.Fatalf("box %d of kind %d: %v", n, kind, box)
				}
				for _, moid := range box[record.MOID] {
					if moid.From < 1 || moid.To > int64(quantities)+1 {
						t.Fatalf("box %d of kind %d: %v", n, kind, box)
					}
				}
				q := record.Query{Box: box}
				if err := q.Normalize(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	f(1, 1, 1)
	f(5, 2, 3)
	f(1000, 3, 100_000)
}

func TestMix(t *testing.T) {
	f := func(m Mix) {
		t.Helper()
		var got Mix
		const n = 10_000
		total := 0
		for _, weight := range m {
			total += weight
		}
		for i := range int64(n) {
			got[m.Kind(1, i)]++
		}
		for kind, weight := range m {
			want := n * weight / total
			diff := got[kind] - want
			if diff > n/50 || diff < -n/50 || weight == 0 && got[kind] > 0 {
				t.Errorf("%v: kind %d %d times of %d", m, kind, got[kind], n)
			}
		}
	}
	f(Mix{1, 0, 0})
	f(Mix{0, 0, 7})
	f(Mix{8, 1, 1})
	f(Mix{0, 500_000, 500_000})
}
