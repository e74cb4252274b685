package meters

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Instances is how many boxes each query is asked with.
const Instances = 11

// Query is one of the ten, with its boxes.
type Query struct {
	Name  string
	About string
	Count bool // only the number of rows is asked for
	Boxes []record.Query
}

const (
	slotsPerDay = 96
	dayNs       = slotsPerDay * slotNs
)

// Queries returns the ten queries; acqs are the first stamps of the batches that were stored.
func (c Config) Queries(acqs []int64) []Query {
	q := picker{c, acqs, rand.New(rand.NewPCG(c.Seed, 1))}
	box := func(f func() record.Query) []record.Query {
		out := make([]record.Query, Instances)
		for i := range out {
			out[i] = f()
		}
		return out
	}
	q3 := box(q.neighbours)
	q8 := make([]record.Query, len(q3))
	for i := range q3 {
		q8[i] = q3[i]
		q8[i].View = record.ViewLatest
	}
	return []Query{
		{"Q1", "one device, one quantity, a day", false, box(q.deviceDay)},
		{"Q2", "one device, everything", false, box(q.device)},
		{"Q3", "100 devices, one quantity, a day", false, q3},
		{"Q4", "all devices, one quantity, 15 minutes", false, box(q.quantitySlot)},
		{"Q5", "everything of 15 minutes", false, box(q.slot)},
		{"Q6", "everything acquired in a window", false, box(q.acquired)},
		{"Q7", "a part of each of the five axes", false, box(q.corner)},
		{"Q8", "Q3, latest versions", false, q8},
		{"Q9", "count: half the devices, 2 of 5 quantities, half the time", true, box(q.half)},
		{"Q10", "count: one tenant, 40 % of the time", true, box(q.tenantTime)},
	}
}

// picker chooses boxes.
type picker struct {
	c    Config
	acqs []int64
	rng  *rand.Rand
}

// caps is a random window of cap that begins with a slot.
func (p picker) caps(widthNs int64) record.RangeSet {
	slots := int(widthNs / slotNs)
	from := p.c.Start() + int64(p.rng.IntN(max(1, p.c.Slots-slots)))*slotNs
	return record.RangeSet{{From: from, To: from + widthNs}}
}

// part is a share of the whole span of cap.
func (p picker) part(of float64) int64 {
	return int64(of*float64(p.c.Slots)) * slotNs
}

func (p picker) quantity() record.RangeSet {
	return record.RangeSet{record.At(int64(p.rng.IntN(Quantities)))}
}

// mids is a random window of devices.
func (p picker) mids(n int) record.RangeSet {
	first := p.rng.IntN(max(1, p.c.Devices-n))
	return record.RangeSet{{From: MID(first), To: MID(first + n)}}
}

func (p picker) device() record.Query {
	device := p.rng.IntN(p.c.Devices)
	return record.Query{Box: record.Box{record.CID: {record.At(int64(p.c.tenant(device)))},
		record.MID: {record.At(MID(device))}}}
}

func (p picker) deviceDay() record.Query {
	q := p.device()
	q.Box[record.MOID], q.Box[record.Cap] = p.quantity(), p.caps(dayNs)
	return q
}

func (p picker) neighbours() record.Query {
	return record.Query{Box: record.Box{record.MID: p.mids(100), record.MOID: p.quantity(),
		record.Cap: p.caps(dayNs)}}
}

func (p picker) quantitySlot() record.Query {
	return record.Query{Box: record.Box{record.MOID: p.quantity(), record.Cap: p.caps(slotNs)}}
}

func (p picker) slot() record.Query {
	return record.Query{Box: record.Box{record.Cap: p.caps(slotNs)}}
}

// acquired asks for the rows of one batch.
func (p picker) acquired() record.Query {
	i := p.rng.IntN(max(1, len(p.acqs)-1))
	window := record.Range{From: p.acqs[i], To: p.between(p.acqs[i] + 1)}
	return record.Query{Box: record.Box{record.Acq: {window}}}
}

// between returns the first stamp of a batch at ns or later: which row of a batch has which stamp
// is the node's business, so windows of acq begin and end between batches.
func (p picker) between(ns int64) int64 {
	i, _ := slices.BinarySearch(p.acqs, ns)
	if i == len(p.acqs) {
		return record.Acq.Max()
	}
	return p.acqs[i]
}

func (p picker) corner() record.Query {
	width := p.part(0.25)
	caps := p.caps(width)
	from := caps[0].From + width*2/3 // a third of both windows is shared
	return record.Query{Box: record.Box{
		record.CID: {record.At(int64(p.rng.IntN(Tenants)))}, record.MID: p.mids(p.c.Devices / 4),
		record.MOID: p.quantity(), record.Cap: caps,
		record.Acq: {{From: p.between(from), To: p.between(from + width)}}}}
}

func (p picker) half() record.Query {
	first := int64(p.rng.IntN(Quantities))
	return record.Query{Box: record.Box{record.MID: p.mids(p.c.Devices / 2),
		record.MOID: {record.At(first), record.At((first + 1) % Quantities)},
		record.Cap:  p.caps(p.part(0.5))}}
}

func (p picker) tenantTime() record.Query {
	return record.Query{Box: record.Box{record.CID: {record.At(int64(p.rng.IntN(Tenants)))},
		record.Cap: p.caps(p.part(0.4))}}
}

// String names the query.
func (q Query) String() string { return fmt.Sprintf("%s (%s)", q.Name, q.About) }
