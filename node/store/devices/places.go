package devices

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/registry"
)

const (
	// fewPlaces are looked at one by one: a cell of so few is not divided.
	fewPlaces = 32
	// maxCells bounds the work of covering a region.
	maxCells = 512
	// marginDegrees is by how much more than a circle is covered, 1 cm, which is far more than
	// rounding makes of it.
	marginDegrees = 1e-7
)

// places are where devices are, by ordinal: those that have one in the order of a Z curve over
// latitude and longitude.
type places struct {
	lats, lons []float64 // by ordinal, NaN without a place; nil if there are none
	keys       []uint64  // of the first ordinals, ascending
}

// step32 is the number of the 2^32 equal parts of a span in which a value is; those at its end are
// in the last one. It never falls when v rises.
func step32(v, from, span float64) uint32 {
	return uint32(max(0, min((v-from)/span*(1<<32), 1<<32-1)))
}

func latStep(lat float64) uint32 { return step32(lat, -90, 180) }
func lonStep(lon float64) uint32 { return step32(lon, -180, 360) }

// keyOf is where a place is on the curve. A place has one key, whatever longitude it has been given
// at a pole, or sign at the antimeridian.
func keyOf(lat, lon float64) uint64 {
	switch {
	case lat == 90 || lat == -90:
		lon = 0
	case lon == -180:
		lon = 180
	}
	return spread(latStep(lat))<<1 | spread(lonStep(lon))
}

// spread puts a zero before each bit.
func spread(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// placeOrder returns devices, by the order in which they came, in the order of the curve. Those
// without a place are at the end.
func placeOrder(lats, lons []float64) []uint32 {
	type placed struct {
		key  uint64
		came uint32
	}
	all := make([]placed, 0, len(lats))
	var none []uint32
	for came, lat := range lats {
		if math.IsNaN(lat) {
			none = append(none, uint32(came))
		} else {
			all = append(all, placed{keyOf(lat, lons[came]), uint32(came)})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.key, b.key) })
	order := make([]uint32, 0, len(lats))
	for _, one := range all {
		order = append(order, one.came)
	}
	return append(order, none...)
}

// newPlaces makes places of latitudes and longitudes by the order in which devices came, and these
// by ordinal.
func newPlaces(lats, lons []float64, byOrd []uint32) (p places) {
	if len(byOrd) == 0 || math.IsNaN(lats[byOrd[0]]) {
		return p
	}
	p.lats, p.lons = make([]float64, len(byOrd)), make([]float64, len(byOrd))
	p.keys = make([]uint64, 0, len(byOrd))
	for ord, came := range byOrd {
		lat, lon := lats[came], lons[came]
		p.lats[ord], p.lons[ord] = lat, lon
		if !math.IsNaN(lat) {
			p.keys = append(p.keys, keyOf(lat, lon))
		}
	}
	return p
}

// of returns the place of a device, NaN if it has none.
func (p *places) of(ord uint32) (lat, lon float64) {
	if p.lats == nil {
		return math.NaN(), math.NaN()
	}
	return p.lats[ord], p.lons[ord]
}

func (p *places) bytes() int64 {
	return int64(8 * (cap(p.lats) + cap(p.lons) + cap(p.keys)))
}

// filter returns a filter of the devices in a region, which has says exactly. The rectangles hold
// all of it.
func (p *places) filter(has func(lat, lon float64) bool, rects []rect) filter {
	var f filter
	if p.lats == nil {
		return none()
	}
	for _, r := range rects {
		p.cover(r, &f)
	}
	f.test = func(ord uint32) bool {
		lat := p.lats[ord]
		return !math.IsNaN(lat) && has(lat, p.lons[ord])
	}
	f.check, f.slow = f.test, true
	return f
}

// rect is a rectangle of steps, its edges included.
type rect struct{ south, west, north, east uint32 }

// cell is a square of steps, whose sides are a power of 2, with its devices: those from one
// ordinal on, before another.
type cell struct {
	south, west uint32
	bits        uint // of a side
	from, to    int
}

// cover lists the devices of cells that hold all of a rectangle. It divides cells that have many
// devices and reach beyond it.
func (p *places) cover(r rect, f *filter) {
	queue := []cell{{bits: 32, to: len(p.keys)}}
	done := 0
	for i := 0; i < len(queue); i++ {
		c := queue[i]
		if c.to-c.from <= fewPlaces || c.bits == 0 || len(queue) > maxCells || c.inside(r) {
			queue[done] = c
			done++
			continue
		}
		half := c.bits - 1
		from := c.from
		base := spread(c.south)<<1 | spread(c.west)
		for quarter := range uint64(4) { // in the order of the curve
			child := cell{south: c.south | uint32(quarter>>1)<<half,
				west: c.west | uint32(quarter&1)<<half, bits: half, from: from, to: c.to}
			if quarter < 3 {
				next := base + (quarter+1)<<(2*half)
				child.to = from + sort.Search(c.to-from, func(i int) bool {
					return p.keys[from+i] >= next
				})
			}
			if from = child.to; child.from < child.to && child.meets(r) {
				queue = append(queue, child)
			}
		}
	}
	for _, c := range queue[:done] {
		f.list(ordinals{from: uint32(c.from), to: uint32(c.to)})
	}
}

func (c cell) end(at uint32) uint32 { return at | uint32(1<<c.bits-1) }

func (c cell) inside(r rect) bool {
	return r.south <= c.south && c.end(c.south) <= r.north && r.west <= c.west &&
		c.end(c.west) <= r.east
}

func (c cell) meets(r rect) bool {
	return c.south <= r.north && r.south <= c.end(c.south) && c.west <= r.east &&
		r.west <= c.end(c.west)
}

// rectsWithin returns rectangles that hold all places of one.
func rectsWithin(x registry.Within) []rect {
	rects := rectsBetween(x.South, x.North, x.West, x.East)
	for _, pole := range []float64{-90, 90} {
		if x.South <= pole && pole <= x.North {
			rects = append(rects, rectOf(pole, 0, pole, 0))
		}
	}
	if x.West <= -180 {
		rects = append(rects, rectOf(x.South, 180, x.North, 180))
	}
	return rects
}

// rectsNear returns rectangles that hold all places of a circle.
func rectsNear(x registry.Near) []rect {
	const degree = math.Pi / 180
	angle := x.Meters / registry.EarthRadiusMeters
	height := angle/degree + marginDegrees
	south, north := x.Lat-height, x.Lat+height
	if south <= -90 || north >= 90 {
		return []rect{rectOf(south, -180, north, 180)}
	}
	width := math.Asin(min(1, math.Sin(angle)/math.Cos(x.Lat*degree)))/degree + marginDegrees
	west, east := x.Lon-width, x.Lon+width
	if west <= -180 {
		return append(rectsBetween(south, north, west+360, east), rectOf(south, 180, north, 180))
	}
	if east > 180 {
		east -= 360
	}
	return rectsBetween(south, north, west, east)
}

// rectsBetween returns two rectangles if one crosses the antimeridian.
func rectsBetween(south, north, west, east float64) []rect {
	if west <= east {
		return []rect{rectOf(south, west, north, east)}
	}
	return []rect{rectOf(south, west, north, 180), rectOf(south, -180, north, east)}
}

func rectOf(south, west, north, east float64) rect {
	return rect{latStep(south), lonStep(west), latStep(north), lonStep(east)}
}
