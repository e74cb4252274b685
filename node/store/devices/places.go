package devices

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/pentad-db/pentad/sdk/registry"
)

const (
	// fewPlaces: a cell of so few is not divided. To look at them takes a few words of bitmaps.
	fewPlaces = 256
	// maxCells bounds the work of covering a region: nor is a cell that has fewer than one of this
	// many of all places.
	maxCells = 2048
	// mostCells are enough for most regions.
	mostCells = 128
	// marginDegrees is by how much more than a circle is covered, 1 cm, which is far more than
	// rounding makes of it.
	marginDegrees = 1e-7
)

// places are where devices are, by ordinal: those that have one in the order of a Z curve over
// latitude and longitude.
type places struct {
	at   []point  // by ordinal; nil if there are none
	keys []uint64 // of the first ordinals, ascending
}

// point is a place, NaN without one.
type point struct{ lat, lon float64 }

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
	p.at = make([]point, len(byOrd))
	p.keys = make([]uint64, 0, len(byOrd))
	for ord, came := range byOrd {
		lat, lon := lats[came], lons[came]
		p.at[ord] = point{lat, lon}
		if !math.IsNaN(lat) {
			p.keys = append(p.keys, keyOf(lat, lon))
		}
	}
	return p
}

// of returns the place of a device, NaN if it has none.
func (p *places) of(ord uint32) (lat, lon float64) {
	if p.at == nil {
		return math.NaN(), math.NaN()
	}
	return p.at[ord].lat, p.at[ord].lon
}

func (p *places) bytes() int64 {
	return int64(8 * (2*cap(p.at) + cap(p.keys)))
}

// filter returns a filter of the devices in a region, which has says exactly. The rectangles hold
// all of it, and if filled, nothing else but at their edges.
func (p *places) filter(has func(lat, lon float64) bool, rects []rect, filled bool) filter {
	var f filter
	if p.at == nil {
		return none()
	}
	for _, r := range rects {
		p.cover(r, filled, &f)
	}
	f.test = func(ord uint32) bool {
		at := p.at[ord]
		return !math.IsNaN(at.lat) && has(at.lat, at.lon)
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

// cover lists the devices of cells that hold all of a rectangle, in the order of the curve. It
// divides cells that have many devices and reach beyond it.
func (p *places) cover(r rect, filled bool, f *filter) {
	side := uint(max(bits.Len32(r.south^r.north), bits.Len32(r.west^r.east)))
	c := cell{south: r.south >> side << side, west: r.west >> side << side, bits: side}
	first := spread(c.south)<<1 | spread(c.west)
	c.from, _ = slices.BinarySearch(p.keys, first)
	c.to = len(p.keys)
	if last := first | (1<<(2*side) - 1); last < math.MaxUint64 {
		c.to, _ = slices.BinarySearch(p.keys, last+1)
	}
	f.lists = slices.Grow(f.lists, mostCells)
	p.coverCell(c, r, max(fewPlaces, len(p.keys)/maxCells), filled, f)
}

func (p *places) coverCell(c cell, r rect, few int, filled bool, f *filter) {
	inside := c.inside(r)
	if c.to-c.from <= few || c.bits == 0 || inside {
		f.list(ordinals{from: uint32(c.from), to: uint32(c.to), passes: inside && filled})
		return
	}
	half := c.bits - 1
	from := c.from
	base := spread(c.south)<<1 | spread(c.west)
	for quarter := range uint64(4) { // in the order of the curve
		child := cell{south: c.south | uint32(quarter>>1)<<half,
			west: c.west | uint32(quarter&1)<<half, bits: half, from: from, to: c.to}
		if quarter < 3 {
			n, _ := slices.BinarySearch(p.keys[from:c.to], base+(quarter+1)<<(2*half))
			child.to = from + n
		}
		if from = child.to; child.from < child.to && child.meets(r) {
			p.coverCell(child, r, few, filled, f)
		}
	}
}

func (c cell) end(at uint32) uint32 { return at | uint32(1<<c.bits-1) }

// inside reports whether a cell lies in a rectangle and does not touch its edges: of the steps
// there, a part lies outside of the region.
func (c cell) inside(r rect) bool {
	return r.south < c.south && c.end(c.south) < r.north && r.west < c.west &&
		c.end(c.west) < r.east
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
