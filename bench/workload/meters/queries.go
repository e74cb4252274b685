package meters

import (
	"math/rand/v2"
	"slices"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	slotsPerDay = 96
	dayNs       = slotsPerDay * slotNs
)

// Queries returns the ten queries; acqs are the first stamps of the batches that were stored.
func (c Config) Queries(acqs []int64) []workload.Query {
	q := picker{c, acqs, rand.New(rand.NewPCG(c.Seed, 1))}
	box := func(f func() record.Query) []system.Query {
		out := make([]system.Query, workload.Instances)
		for i := range out {
			out[i].Query = f()
		}
		return out
	}
	count := func(f func() record.Query) []system.Query {
		out := box(f)
		for i := range out {
			out[i].Want = system.WantCount
		}
		return out
	}
	q3 := box(q.neighbours)
	q8 := slices.Clone(q3)
	for i := range q8 {
		q8[i].View = record.ViewLatest
	}
	return []workload.Query{
		{Name: "Q1", About: "one device, one quantity, a day", Boxes: box(q.deviceDay)},
		{Name: "Q2", About: "one device, everything", Boxes: box(q.device)},
		{Name: "Q3", About: "100 devices, one quantity, a day", Boxes: q3},
		{Name: "Q4", About: "all devices, one quantity, 15 minutes", Boxes: box(q.quantitySlot)},
		{Name: "Q5", About: "everything of 15 minutes", Boxes: box(q.slot)},
		{Name: "Q6", About: "everything acquired in a window", Boxes: box(q.acquired)},
		{Name: "Q7", About: "a part of each of the five axes", Boxes: box(q.corner)},
		{Name: "Q8", About: "Q3, latest versions", Boxes: q8},
		{Name: "Q9", About: "count: half the devices, 2 of 5 quantities, half the time",
			Boxes: count(q.half)},
		{Name: "Q10", About: "count: one tenant, 40 % of the time", Boxes: count(q.tenantTime)},
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
