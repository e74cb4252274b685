package examples

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Quantities of the sensors.
const (
	air    = 1 // several values in one reading: a double, an integer and a string
	pulses = 2 // an integer
	state  = 3 // a string
)

// sensor is one of the thesis: a sensor of a group, at a place, that has an owner and a project.
type sensor struct {
	mid int64
	registry.Description
}

// airReading is a reading of air.
type airReading struct {
	mid     int64
	after   time.Duration
	value   float64
	quality int32
	note    string
}

func (r *airReading) payload() []byte {
	p := binary.LittleEndian.AppendUint32(number(r.value), uint32(r.quality))
	return append(p, r.note...)
}

func (r *airReading) String() string {
	return fmt.Sprint(r.mid, r.after, r.value, r.quality, r.note)
}

// thesis has the sensors and their readings in slices, and in a node.
type thesis struct {
	*testing.T
	*db
	rng      *rand.Rand
	sensors  []sensor
	readings []airReading
}

const (
	thesisSensors = 100
	thesisTicks   = 48
	tick          = 30 * time.Minute
)

func newThesis(t *testing.T) *thesis {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &thesis{T: t, db: open(), rng: rand.New(rand.NewPCG(seed, 5))}
	t.Cleanup(h.close)
	h.quantity(client.Quantity{MOID: air, Name: "air", Type: plugin.Struct,
		Fields: []client.QuantityField{{Name: "value", Type: plugin.F64},
			{Name: "quality", Type: plugin.I32, Offset: 8},
			{Name: "note", Type: plugin.Text, Offset: 12}}})
	h.quantity(client.Quantity{MOID: pulses, Name: "pulses", Type: plugin.I64})
	h.quantity(client.Quantity{MOID: state, Name: "state", Type: plugin.Text})
	var some []registry.Description
	for i := range thesisSensors {
		some = append(some, h.random(fmt.Sprintf("sensor-%03d", i)))
	}
	h.add(some...)
	return h
}

// random describes a sensor: its group has the part of a GroupID.
func (h *thesis) random(name string) registry.Description {
	pick := func(from ...string) string { return from[h.rng.IntN(len(from))] }
	return registry.Description{Name: name, Type: pick("temperature", "humidity"),
		Group: pick("campus/library", "campus/laboratory", "harbour"),
		Place: &registry.Place{Lat: 65 + h.rng.Float64()/10, Lon: 25.4 + h.rng.Float64()/10,
			Alt: float64(5 * h.rng.IntN(4)), HasAlt: true},
		Attributes: attributes("owner", pick("acme", "beta"), "project", pick("wind", "snow"))}
}

// add describes sensors, and stores their readings of a day.
func (h *thesis) add(some ...registry.Description) {
	var b record.Batch
	for i, mid := range h.describe(some...) {
		h.sensors = append(h.sensors, sensor{mid, some[i]})
		for k := range thesisTicks {
			r := airReading{mid, time.Duration(k) * tick, math.Round(h.rng.NormFloat64()*100) / 4,
				int32(h.rng.IntN(3)), []string{"ok", "error 7", "error 9"}[h.rng.IntN(3)]}
			h.readings = append(h.readings, r)
			b.Append(key(mid, air, r.after), r.payload())
			b.Append(key(mid, pulses, r.after), binary.LittleEndian.AppendUint64(nil, uint64(k)))
			b.Append(key(mid, state, r.after), []byte("on"))
		}
	}
	h.put(&b)
}

// question chooses sensors and readings of air, as a query does and as a loop does.
type question struct {
	query   record.Query
	sensor  func(*registry.Description) bool
	reading func(*airReading) bool
}

// check compares the answer of the node with that of a loop over all readings.
func (h *thesis) check(about string, q question) {
	h.Helper()
	var want, got []string
	for i := range h.sensors {
		if q.sensor != nil && !q.sensor(&h.sensors[i].Description) {
			continue
		}
		for _, r := range h.readings {
			if r.mid == h.sensors[i].mid && (q.reading == nil || q.reading(&r)) {
				want = append(want, r.String())
			}
		}
	}
	for _, r := range h.records(q.query) {
		p := r.Payload
		one := airReading{r.MID, time.Duration(r.CapNs - day().UnixNano()), float(p, 0),
			int32(binary.LittleEndian.Uint32(p[8:])), string(p[12:])}
		got = append(got, one.String())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		h.Errorf("%s: %d readings, want %d", about, len(got), len(want))
	}
}

// frame is a time frame of the day.
func (q question) frame(from, to time.Duration) question {
	q.query.Box[record.Cap] = record.RangeSet{{From: key(0, 0, from).CapNs,
		To: key(0, 0, to).CapNs}}
	before := q.reading
	q.reading = func(r *airReading) bool {
		return r.after >= from && r.after < to && (before == nil || before(r))
	}
	return q
}

// scenario is the one question of the thesis.
func (h *thesis) scenario() question {
	q := question{query: selected("type=temperature, within(65.02,25.42,65.09,25.49), alt=0..11, "+
		"project=snow", air)}
	q.query.Where = "value > 10"
	q.sensor = func(d *registry.Description) bool {
		r := rectangle{65.02, 25.42, 65.09, 25.49}
		return d.Type == "temperature" && r.has(d.Place.Lat, d.Place.Lon) && d.Place.Alt < 11 &&
			d.Attributes["project"].Text() == "snow"
	}
	q.reading = func(r *airReading) bool { return r.value > 10 }
	return q.frame(6*time.Hour, 18*time.Hour)
}

// TestThesis asks the questions of a thesis that stored sensors in DynamoDB, where they took index
// tables, a table for each group, several round trips and filters in the client.
func TestThesis(t *testing.T) {
	h := newThesis(t)
	last := time.Duration(thesisTicks-1) * tick
	newest := question{query: of(air), reading: func(r *airReading) bool { return r.after == last }}
	newest.query.Last = 1
	h.check("latest value of every sensor", newest)
	newest.query.Box[record.MID] = record.RangeSet{record.At(h.sensors[42].mid)}
	newest.sensor = func(d *registry.Description) bool { return d.Name == "sensor-042" }
	h.check("latest value of a sensor", newest)
	h.check("time frame", question{query: of(air)}.frame(2*time.Hour, 5*time.Hour))

	above := question{query: of(air), reading: func(r *airReading) bool {
		return r.value <= -12.5 && r.quality != 2 && strings.HasPrefix(r.note, "error")
	}}
	above.query.Where = `value <= -12.5 and quality != 2 and note ^= error`
	h.check("inequality on several values of a reading", above)
	whole := of(pulses)
	whole.Where = "value >= 40"
	if got, want := h.count(whole), uint64(thesisSensors*(thesisTicks-40)); got != want {
		t.Errorf("integers: %d readings, want %d", got, want)
	}
	if got := h.count(of(state)); got != thesisSensors*thesisTicks {
		t.Errorf("strings: %d readings", got)
	}

	begins := question{query: selected("name^=sensor-01", air),
		sensor: func(d *registry.Description) bool {
			return strings.HasPrefix(d.Name, "sensor-01")
		}}
	h.check("a name begins with", begins)
	begins = question{query: selected("group^=campus/, owner in (acme, gamma)", air),
		sensor: func(d *registry.Description) bool {
			return strings.HasPrefix(d.Group, "campus/") && d.Attributes["owner"].Text() == "acme"
		}}
	h.check("a group begins with", begins)
	h.check("the one question", h.scenario())

	// A sensor that is added is found at once.
	fresh := h.random("sensor-100")
	fresh.Type, fresh.Attributes = "temperature", attributes("project", "snow")
	fresh.Place = &registry.Place{Lat: 65.05, Lon: 25.45, Alt: 5, HasAlt: true}
	h.add(fresh)
	h.check("the one question after a sensor was added", h.scenario())
	if h.count(h.scenario().query) == 0 {
		t.Error("the one question finds nothing")
	}
	h.move(fresh)
}

// move moves the last sensor out of the rectangle of the scenario, and later learns of it.
func (h *thesis) move(moved registry.Description) {
	h.Helper()
	before := h.scenario()
	before.query.View, before.query.AsOfAcqNs = record.ViewAsOf, h.put(mark())
	moved.Place = &registry.Place{Lat: 66, Lon: 25.45, Alt: 5, HasAlt: true}
	h.describeFrom(day().Add(12*time.Hour), moved)
	h.check("the one question as known before a sensor moved", before)
	h.sensors[len(h.sensors)-1].Description = moved
	h.check("the one question after a sensor moved", h.scenario())
	if all, err := h.DeviceDescriptions(h.Context(), tenant,
		h.sensors[len(h.sensors)-1].mid); err != nil || len(all) != 2 || all[0].Place.Lat != 65.05 {
		h.Errorf("the history of its places: %+v, %v", all, err)
	}
}

// mark is a reading of a quantity that nothing asks for.
func mark() *record.Batch {
	b := &record.Batch{}
	b.Append(key(1, 99, 0), nil)
	return b
}
