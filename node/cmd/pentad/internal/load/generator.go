package load

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// Made-up records say what they are: their devices lie in a range of their own, and each seed has
// its part of it, so that runs with different seeds never write the same reading.
const (
	FirstMID = int64(1) << 61 // of all devices that are made up
	EndMID   = int64(1) << 62

	MaxDevices    = 1 << 24
	MaxQuantities = 1 << 16

	deviceBits = 24

	// Slot is the distance of two readings of a device and quantity.
	Slot = time.Second
	// startNs is the first slot, 2024-01-01: a fixed one, so that a seed alone says all.
	startNs  = int64(1_704_067_200_000_000_000)
	jitterMs = 1000 // readings come at some millisecond of their slot
	// MaxSlots bounds cap below its reserved end; after it the same readings come again.
	MaxSlots = (math.MaxInt64-startNs)/int64(Slot) - 1
)

// Generator makes up records: slot after slot, all quantities of all devices in each. The same
// generator makes the same records.
type Generator struct {
	CID          int32
	Devices      int // 1 to MaxDevices
	Quantities   int // 1 to MaxQuantities; moid counts from 1
	PayloadBytes int
	Seed         uint64
}

// mix is a hash of one number: the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// MID returns the id of a device.
func (g *Generator) MID(device int64) int64 {
	part := mix(g.Seed) % (uint64(EndMID-FirstMID) >> deviceBits)
	return FirstMID + int64(part<<deviceBits) + device
}

// Append makes records from up to from+n and appends them to a batch.
func (g *Generator) Append(b *record.Batch, from, n int64) {
	first := g.MID(0)
	var payload []byte
	for i := from; i < from+n; i++ {
		series := i % g.perSlot()
		slot := i / g.perSlot() % MaxSlots
		h := mix(mix(g.Seed^uint64(series)<<20) ^ uint64(slot))
		key := record.Key{CID: g.CID, MID: first + series/int64(g.Quantities),
			MOID:  int32(1 + series%int64(g.Quantities)),
			CapNs: SlotNs(slot) + int64(h%jitterMs)*int64(time.Millisecond)}
		payload = g.appendPayload(payload[:0], series, h)
		b.Append(key, payload)
	}
}

// perSlot returns the number of records in a slot.
func (g *Generator) perSlot() int64 { return int64(g.Devices) * int64(g.Quantities) }

// SlotNs returns the cap at which a slot starts.
func SlotNs(slot int64) int64 { return startNs + slot*int64(Slot) }

// appendPayload appends a float64 near a level of the series, with the two decimals that meters
// send, and then bytes that cannot be compressed, as those of ciphertext cannot.
func (g *Generator) appendPayload(dst []byte, series int64, h uint64) []byte {
	level := 20_000 + mix(g.Seed+uint64(series))%60_000
	value := float64(level+h>>32%200) / 100
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(value))
	for len(dst) < g.PayloadBytes {
		h = mix(h)
		dst = binary.LittleEndian.AppendUint64(dst, h)
	}
	return dst[:g.PayloadBytes]
}

// CountSlots returns how many slots hold records, when every slot before one that does has some.
// filled says whether a record lies in a slot or after it; it is asked about 60 times.
func CountSlots(filled func(slot int64) (bool, error)) (int64, error) {
	slots, step := int64(0), int64(1) // everything before slots is filled
	for step < MaxSlots {
		ok, err := filled(step - 1)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		slots, step = step, 2*step
	}
	end := min(step-1, MaxSlots) // slots is at most this
	for slots < end {
		middle := slots + (end-slots+1)/2
		ok, err := filled(middle - 1)
		switch {
		case err != nil:
			return 0, err
		case ok:
			slots = middle
		default:
			end = middle - 1
		}
	}
	return slots, nil
}

// Boxes chooses random boxes over the records of a generator.
type Boxes struct {
	Generator
	Slots int64 // that hold records; at least 1
}

// Limits of random boxes.
const (
	rowsSlots        = 1000 // readings of one series
	aggregateDevices = 100
)

// Kinds of queries.
const (
	KindRows      = 0
	KindCount     = 1
	KindAggregate = 2
	NumKinds      = 3
)

// KindNames returns the names of the kinds, by index.
func KindNames() []string { return []string{"rows", "count", "aggregate"} }

// Box returns the box of query n, which the seed decides:
//
//	rows       one device and quantity, a quarter of the time, at most 1,000 slots
//	count      a tenth of the devices, all quantities, half of the time
//	aggregate  100 devices, one quantity, a quarter of the time
func (b *Boxes) Box(kind int, n int64) record.Box {
	random := b.Seed ^ mix(uint64(n)*NumKinds+uint64(kind))
	below := func(limit int64) int64 {
		random = mix(random)
		return int64(random % uint64(limit))
	}
	devices, slots := int64(1), max(1, b.Slots/4)
	oneQuantity := true
	switch kind {
	case KindRows:
		slots = min(slots, rowsSlots)
	case KindCount:
		devices, slots = max(1, int64(b.Devices)/10), max(1, b.Slots/2)
		oneQuantity = false
	case KindAggregate:
		devices = min(aggregateDevices, int64(b.Devices))
	}
	mid := b.MID(below(int64(b.Devices) - devices + 1))
	moid := 1 + below(int64(b.Quantities))
	slot := below(b.Slots - slots + 1)
	var box record.Box
	box[record.CID] = record.RangeSet{record.At(int64(b.CID))}
	box[record.MID] = record.RangeSet{{From: mid, To: mid + devices}}
	if oneQuantity {
		box[record.MOID] = record.RangeSet{record.At(moid)}
	}
	box[record.Cap] = record.RangeSet{{From: SlotNs(slot), To: SlotNs(slot + slots)}}
	return box
}

// Mix is how often each kind is asked, as weights.
type Mix [NumKinds]int

// Kind returns the kind of query n, which the seed decides.
func (m Mix) Kind(seed uint64, n int64) int {
	total := 0
	for _, weight := range m {
		total += weight
	}
	at := int(mix(seed+mix(uint64(n))) % uint64(max(total, 1)))
	return slices.IndexFunc(m[:], func(weight int) bool {
		at -= weight
		return at < 0
	})
}
