package examples

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Readings of a rectangle and of a circle: devices have places, and an index of these is in the
// node.
func Example_dimensionalityReduction() {
	const temperature = 1
	d := open()
	defer d.close()
	var devices []registry.Description
	for i := range 100 { // a grid of 10 x 10, about 100 m apart
		place := &registry.Place{Lat: 65 + 0.001*float64(i/10), Lon: 25 + 0.002*float64(i%10)}
		devices = append(devices, registry.Description{Name: fmt.Sprint("t", i), Place: place})
	}
	var b record.Batch
	for i, mid := range d.describe(devices...) {
		b.Append(key(mid, temperature, time.Hour), number(float64(i)))
	}
	d.put(&b)

	for _, selector := range []string{"within(65.0005,25.001,65.0035,25.0055)",
		"near(65.005,25.01,120m)"} {
		fmt.Println(selector, d.count(selected(selector, temperature)))
	}
	// Output:
	// within(65.0005,25.001,65.0035,25.0055) 6
	// near(65.005,25.01,120m) 5
}

// rectangle is in degrees; south and west are in it, and for random places the other sides, too.
type rectangle struct{ south, west, north, east float64 }

func (r rectangle) has(lat, lon float64) bool {
	return lat >= r.south && lat <= r.north && lon >= r.west && lon <= r.east
}

// hashBits is how many bits of latitude and of longitude a geohash has.
const hashBits = 25

// geohash interleaves the bits of a place, so that places with equal first bits are neighbours.
func geohash(lat, lon float64) (hash int64) {
	y, x := hashSteps(lat+90, 180), hashSteps(lon+180, 360)
	return interleave(y, x, hashBits)
}

// hashSteps is a coordinate in the steps of a geohash.
func hashSteps(at, whole float64) int64 {
	return min(int64(at/whole*(1<<hashBits)), 1<<hashBits-1)
}

func interleave(y, x int64, bits int) (hash int64) {
	for i := bits - 1; i >= 0; i-- {
		hash = hash<<2 | x>>i&1<<1 | y>>i&1
	}
	return hash
}

// mostCells is how many cells a search may take to cover a rectangle.
const mostCells = 16

// cover returns the ranges of geohashes of the cells, of the smallest size of which a few suffice,
// that cover a rectangle.
func (r rectangle) cover() (cells record.RangeSet) {
	south, north := hashSteps(r.south+90, 180), hashSteps(r.north+90, 180)
	west, east := hashSteps(r.west+180, 360), hashSteps(r.east+180, 360)
	cut := 0 // bits
	for (north>>cut-south>>cut+1)*(east>>cut-west>>cut+1) > mostCells {
		cut++
	}
	for y := south >> cut; y <= north>>cut; y++ {
		for x := west >> cut; x <= east>>cut; x++ {
			first := interleave(y, x, hashBits-cut) << (2 * cut)
			cells = append(cells, record.Range{From: first, To: first + 1<<(2*cut)})
		}
	}
	return cells
}

// Quantities of the searches: a reading of a device, and a copy of it by place, as a store without
// an index of places has it. The id of a copy is its geohash, and its payload ends with the place.
const (
	reading = 1
	byPlace = 2
)

// firstPlaced is the id of the first device of places: they are many, so they get ids in order and
// not by names.
const firstPlaced = 1 << 41

// places describes devices at random places of a square degree, some at each, in groups of a tree,
// with one reading and its copy each, and returns where they are.
func (d *db) places(count, atEach int, seed uint64) (at []registry.Place) {
	const atOnce = 10_000
	rng := rand.New(rand.NewPCG(seed, 6))
	var p registry.Place
	w := d.NewWriter(client.WriterOptions{})
	for from := 0; from < count; from += atOnce {
		devices := make([]client.DescribedDevice, min(atOnce, count-from))
		for i := range devices {
			if (from+i)%atEach == 0 {
				p = registry.Place{Lat: 64.5 + rng.Float64(), Lon: 25 + rng.Float64()}
			}
			at = append(at, p)
			devices[i] = client.DescribedDevice{MID: firstPlaced + int64(from+i),
				Description: registry.Description{Place: &at[from+i], Group: groupOf(from + i)}}
		}
		check(d.DescribeDevices(context.Background(), tenant, devices))
		for i := range devices {
			p := at[from+i]
			value := number(float64(from + i))
			check(w.Add(context.Background(), key(devices[i].MID, reading, 0), value))
			copied := append(append(value, number(p.Lat)...), number(p.Lon)...)
			// Devices of one place differ in their time.
			check(w.Add(context.Background(), key(geohash(p.Lat, p.Lon), byPlace,
				time.Duration(from+i)), copied))
		}
	}
	check(w.Close(context.Background()))
	check(d.node.Seal(context.Background()))
	return at
}

// float is the nth number of a payload.
func float(payload []byte, n int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(payload[8*n:]))
}

// byRegistry returns the readings of a rectangle by a selector.
func (d *db) byRegistry(r rectangle) (found []float64, read int) {
	q := selected(fmt.Sprintf("within(%v,%v,%v,%v)", r.south, r.west, r.north, r.east), reading)
	_, err := d.Scan(context.Background(), &q, func(b *record.Batch) error {
		read += b.Len()
		for i := range b.Len() {
			found = append(found, float(b.Payload(i), 0))
		}
		return nil
	})
	check(err)
	return found, read
}

// byGeohash returns them by the cells that cover it, without those that are in a cell and not in
// the rectangle.
func (d *db) byGeohash(r rectangle) (found []float64, read int) {
	q := of(byPlace)
	q.Box[record.MID] = r.cover()
	_, err := d.Scan(context.Background(), &q, func(b *record.Batch) error {
		read += b.Len()
		for i := range b.Len() {
			if p := b.Payload(i); r.has(float(p, 1), float(p, 2)) {
				found = append(found, float(p, 0))
			}
		}
		return nil
	})
	check(err)
	return found, read
}

// TestPlaces searches random rectangles in both ways, and in a slice.
func TestPlaces(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := open()
	defer d.close()
	at := d.places(3000, 1+int(seed%3), seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	for range 20 {
		r := rectangle{south: 64.4 + rng.Float64(), west: 24.9 + rng.Float64()}
		r.north, r.east = r.south+rng.Float64()/4, r.west+rng.Float64()/4
		var want []float64
		for i, p := range at {
			if r.has(p.Lat, p.Lon) {
				want = append(want, float64(i))
			}
		}
		for name, search := range map[string]func(rectangle) ([]float64, int){
			"registry": d.byRegistry, "geohash": d.byGeohash} {
			got, _ := search(r)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %+v: %d devices, want %d", name, r, len(got), len(want))
			}
		}
	}
}

// BenchmarkPlaces reads the readings of about 1,000 of a million devices by place: of devices that
// are each somewhere else, and of buildings with 200 devices.
func BenchmarkPlaces(b *testing.B) {
	b.Run("scattered", func(b *testing.B) { benchmarkPlaces(b, 1) })
	b.Run("buildings", func(b *testing.B) { benchmarkPlaces(b, 200) })
}

func benchmarkPlaces(b *testing.B, atEach int) {
	d := open()
	defer d.close()
	d.places(1_000_000, atEach, 1)
	r := rectangle{65, 25.4, 65.0316, 25.4316}
	for name, search := range map[string]func(rectangle) ([]float64, int){
		"registry": d.byRegistry, "geohash": d.byGeohash} {
		found, read := search(r) // the first one builds the index
		b.Logf("%s: %d rows found, %d read", name, len(found), read)
	}
	inTurns(b, way{"registry", func() { d.byRegistry(r) }},
		way{"geohash", func() { d.byGeohash(r) }})
}
