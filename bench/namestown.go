package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	townSeed   = 7
	townHourNs = int64(time.Hour)
	townFloors = 10
	// Degrees that the town begins at; it is one degree wide and high.
	townSouth, townWest = 64.5, 25.0
	// scenarioHours and scenarioAbove keep about one reading of each device.
	scenarioHours, scenarioAbove = 5, 27.5
	// wantedDevices is how many devices boxes hold, fewer than the ids that a query can name.
	wantedDevices = 900
	townBuilding  = 200 // devices
)

func townStart() int64 { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano() }

func townTypes() []string { return []string{"thermometer", "meter", "valve", "gateway", "lock"} }

// townLayout says where devices are.
type townLayout string

const (
	// scattered devices are anywhere, whatever their ids.
	scattered townLayout = "scattered"
	// inStreets are those of one building together, and buildings along streets, as they were
	// registered: neighbours have ids near each other.
	inStreets townLayout = "streets"
)

// town has devices that send a number every hour.
type town struct {
	devices []system.Device
	each    int
}

func newTown(devices, each int, layout townLayout) *town {
	r := rand.New(rand.NewPCG(townSeed, 1))
	t := &town{devices: make([]system.Device, devices), each: each}
	streets := int(math.Ceil(math.Sqrt(float64(devices) / townBuilding)))
	for i := range t.devices {
		// MIDs are given when devices are registered; until then they are numbers in order.
		d := system.Device{MID: int64(i), Name: fmt.Sprintf("oulu/b%d/t%d", i/townBuilding, i),
			Type: townTypes()[i%5], Project: fmt.Sprintf("project %d", r.IntN(10)),
			Lat: r.Float64(), Lon: r.Float64(), Alt: float64(3 * (i / 20 % townFloors))}
		if layout == inStreets {
			building := i / townBuilding
			d.Lat = (float64(building/streets) + d.Lat/10) / float64(streets)
			d.Lon = (float64(building%streets) + d.Lon/10) / float64(streets)
		}
		d.Lat, d.Lon = townSouth+d.Lat, townWest+d.Lon
		t.devices[i] = d
	}
	return t
}

// value is what device i sends at an hour: tenths, around 20.
func value(i, hour int) float64 {
	r := rand.New(rand.NewPCG(uint64(i), uint64(hour)))
	return math.Round(200+80*r.NormFloat64()) / 10
}

// batch fills b with the readings of some devices at an hour.
func (t *town) batch(b *record.Batch, hour, from, to int) {
	b.Reset()
	var payload []byte
	for i := from; i < to; i++ {
		payload = system.AppendNumber(payload[:0], value(i, hour))
		b.Append(record.Key{CID: 1, MID: t.devices[i].MID, MOID: 1,
			CapNs: townStart() + int64(hour)*townHourNs}, payload)
	}
}

// plain is a box of a type and a rectangle only.
func (t *town) plain(round int) system.Where {
	w := t.rectangle(round, 0.2)
	w.AltFrom, w.AltTo = math.Inf(-1), math.Inf(1)
	return w
}

// scenario is a box of all that can be asked.
func (t *town) scenario(round int) system.Where {
	r := rand.New(rand.NewPCG(townSeed, uint64(100+round)))
	w := t.rectangle(round, 0.2*0.7*0.1)
	w.AltTo = 20 // 7 of 10 floors
	w.Project = fmt.Sprintf("project %d", r.IntN(10))
	from := townStart() + int64(r.IntN(max(1, t.each-scenarioHours)))*townHourNs
	w.Cap = record.Range{From: from, To: from + scenarioHours*townHourNs}
	w.Above = scenarioAbove
	return w
}

// rectangle is a random one, so large that a share of its devices is about as many as wanted.
func (t *town) rectangle(round int, share float64) (w system.Where) {
	r := rand.New(rand.NewPCG(townSeed, uint64(round)))
	side := min(1, math.Sqrt(wantedDevices/(share*float64(len(t.devices)))))
	w.Type = townTypes()[r.IntN(5)]
	w.South = townSouth + r.Float64()*(1-side)
	w.West = townWest + r.Float64()*(1-side)
	w.North, w.East = w.South+side, w.West+side
	return w
}

// holds ignores the project when none is asked for.
func (t *town) holds(w *system.Where, d *system.Device) bool {
	if w.Project == "" {
		own := *w
		own.Project = d.Project
		return own.Holds(d)
	}
	return w.Holds(d)
}

func (t *town) count(w *system.Where) (n int) {
	for i := range t.devices {
		if t.holds(w, &t.devices[i]) {
			n++
		}
	}
	return n
}

// ids returns the devices of a box, as ranges.
func (t *town) ids(w *system.Where) (ids record.RangeSet) {
	for i := range t.devices {
		if d := &t.devices[i]; t.holds(w, d) {
			ids = append(ids, record.At(d.MID))
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i].From < ids[j].From })
	return ids
}

// answer is what a loop over all devices finds.
func (t *town) answer(w *system.Where) (rows int, sum float64) {
	for i := range t.devices {
		if !t.holds(w, &t.devices[i]) {
			continue
		}
		for hour := range t.each {
			if v := value(i, hour); w.Cap.Contains(townStart()+int64(hour)*townHourNs) &&
				v > w.Above {
				rows, sum = rows+1, sum+v
			}
		}
	}
	return rows, sum
}
