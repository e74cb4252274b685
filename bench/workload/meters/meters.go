// Package meters is the standard workload: the readings of a fleet of meters in the order in which
// they arrive, with late and corrected ones, and the ten queries that are asked of them.
//
// Everything follows from a [Config]. It knows no database. Its main type is [Stream].
package meters

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// What is the same at every size.
const (
	Quantities = 5
	Tenants    = 4

	slotNs    = int64(15 * time.Minute)
	jitterNs  = int64(time.Millisecond)
	jitters   = 5000       // cap is up to 5 s after its slot
	maxDelay  = 3 * 24 * 4 // slots that a late reading or a correction comes later at most
	firstMID  = 4_000_000_000
	arriveNs  = int64(5 * time.Second)  // the first reading of a slot arrives
	arrivalNs = int64(10 * time.Minute) // over which the readings of a slot arrive
	latePart  = 0.02
	fixedPart = 0.01

	statusCorrected = 1
)

// Config is a size and a seed.
type Config struct {
	Devices int
	Slots   int // quarters of an hour
	Seed    uint64
}

// Sized returns the workload with about that many rows: 402 slots (4.2 days) and as many devices
// as it takes; 20 million rows are 50,000 devices.
func Sized(rows int) Config {
	return Config{Devices: max(rows/402, 120), Slots: 402, Seed: 1}
}

// Workload returns the load and its queries.
func (c Config) Workload() *workload.Workload {
	return &workload.Workload{Name: "meters", PayloadBytes: system.StatusBytes, Versions: true,
		About: "a fleet of meters, a reading each quarter of an hour; 2 % late by up to 3 days, " +
			"1 % corrected later; payload: float64 and status word",
		Phases: []workload.Phase{{
			Stream:  func() (workload.Stream, error) { return c.NewStream(), nil },
			Queries: func(s *workload.Survey) []workload.Query { return c.Queries(s.Stamps) }}}}
}

// Start is the time of the first slot.
func (c Config) Start() int64 { return time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano() }

func (c Config) hash(device, slot int, salt uint64) uint64 {
	return workload.Mix(workload.Mix(c.Seed<<8^salt) ^ uint64(device)<<32 ^ uint64(slot))
}

// share maps a hash to [0, 1).
func share(h uint64) float64 { return float64(h>>11) / (1 << 53) }

func (c Config) tenant(device int) int32 {
	return int32(c.hash(device, 0, 'c') % Tenants)
}

// MID returns the id of a device.
func MID(device int) int64 { return firstMID + int64(device) }

// delayed is a reading that arrives in a later slot than its own.
type delayed struct {
	device, slot int32
	corrected    bool
}

// Stream makes the rows in arrival order.
type Stream struct {
	c       Config
	startNs int64
	waiting [][]delayed // by the slot in which they arrive, as a ring
	slot    int
	place   int // of the next device in the slot's order
	late    int // of the next delayed reading of the slot
	step    int // from device to device; coprime to their number
	tenants []int32
}

// NewStream returns a stream at its start.
func (c Config) NewStream() *Stream {
	s := &Stream{c: c, startNs: c.Start(), waiting: make([][]delayed, maxDelay+1),
		tenants: make([]int32, c.Devices)}
	for device := range s.tenants {
		s.tenants[device] = c.tenant(device)
	}
	s.step = workload.Step(c.Devices*2/3, c.Devices)
	return s
}

// Next implements [workload.Stream].
func (s *Stream) Next(b *record.Batch) bool {
	b.Reset()
	b.AcqNs = b.AcqNs[:0]
	b.Stride = system.StatusBytes
	var arrival int64
	for b.Len() < workload.BatchRows {
		d, at, ok := s.next()
		if !ok {
			break
		}
		arrival = at
		s.append(b, d)
	}
	for range b.Len() {
		b.AcqNs = append(b.AcqNs, arrival)
	}
	return b.Len() > 0
}

// Err implements [workload.Stream].
func (s *Stream) Err() error { return nil }

// next returns the reading that arrives next and when.
func (s *Stream) next() (delayed, int64, bool) {
	for s.slot < s.c.Slots {
		waiting := s.waiting[s.slot%len(s.waiting)]
		arrival := s.startNs + int64(s.slot)*slotNs + arriveNs +
			int64(s.place)*(arrivalNs/int64(s.c.Devices))
		if s.late < len(waiting) && s.late*s.c.Devices <= s.place*len(waiting) {
			s.late++
			return waiting[s.late-1], arrival, true
		}
		if s.place == s.c.Devices {
			s.waiting[s.slot%len(s.waiting)] = waiting[:0]
			s.slot, s.place, s.late = s.slot+1, 0, 0
			continue
		}
		device := (s.place*s.step + s.slot*7919) % s.c.Devices
		s.place++
		h := s.c.hash(device, s.slot, 'd')
		delay, part := 1+int(h%maxDelay), share(workload.Mix(h))
		reading := delayed{device: int32(device), slot: int32(s.slot)}
		if part < latePart {
			s.wait(delay, reading)
			continue
		}
		if part < latePart+fixedPart {
			s.wait(delay, delayed{reading.device, reading.slot, true})
		}
		return reading, arrival, true
	}
	return delayed{}, 0, false
}

func (s *Stream) wait(slots int, d delayed) {
	at := (s.slot + slots) % len(s.waiting)
	s.waiting[at] = append(s.waiting[at], d)
}

func (s *Stream) append(b *record.Batch, d delayed) {
	device, slot := int(d.device), int(d.slot)
	quantity := (device + slot) % Quantities
	h := s.c.hash(device, slot, 'v')
	value, status := s.c.value(device, slot, quantity, h), uint64(0)
	if d.corrected {
		value, status = value+0.5, statusCorrected
	}
	b.CID = append(b.CID, s.tenants[device])
	b.MID = append(b.MID, MID(device))
	b.MOID = append(b.MOID, int32(quantity))
	b.CapNs = append(b.CapNs, s.startNs+int64(slot)*slotNs+int64(h%jitters)*jitterNs)
	b.Data = binary.LittleEndian.AppendUint64(b.Data, math.Float64bits(value))
	b.Data = binary.LittleEndian.AppendUint64(b.Data, status)
}

// value is a plausible reading with the digits that meters send.
func (c Config) value(device, slot, quantity int, h uint64) float64 {
	noise := share(bits.RotateLeft64(h, 32))
	switch quantity {
	case 0: // kW, high in the evening
		day := math.Abs(float64(slot%96)/48 - 1)
		return math.Round((0.1+4*day*noise)*1000) / 1000
	case 1: // V
		return math.Round((222+16*noise)*10) / 10
	case 2: // A
		return math.Round(20*noise*noise*100) / 100
	case 3: // degrees Celsius
		return math.Round((8+6*math.Sin(float64(slot)/96*2*math.Pi)+4*noise)*10) / 10
	default: // kWh, a counter
		base := share(c.hash(device, 0, 'k')) * 50_000
		return math.Round((base+0.11*float64(slot)+0.1*noise)*100) / 100
	}
}
