package thesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// Selected is the query that chooses sensors by what is known of them. Its twins have their ids.
const Selected = "T6"

// The sensors are in a square of a tenth of a degree.
const (
	south, west = 65.0, 25.4
	side        = 0.1
	atOnce      = 3 // sensors that a question is about at least
)

// devices describes the sensors, each of one of a few types, projects and altitudes.
func devices() []system.Device {
	rng := rand.New(rand.NewPCG(2, 6))
	out := make([]system.Device, sensors)
	for i := range out {
		out[i] = system.Device{MID: int64(firstMID + i), Name: fmt.Sprint("sensor-", i),
			Type:    []string{"temperature", "humidity"}[i%2],
			Project: fmt.Sprint("project-", i/2%2), Alt: float64(5 * (i / 4 % 3)),
			Lat: south + side*rng.Float64(), Lon: west + side*rng.Float64()}
	}
	return out
}

// chosen are sensors of a type, in a rectangle, below an altitude, of a project.
type chosen struct {
	selector string
	ids      record.RangeSet
}

func choose(rng *rand.Rand) (c chosen) {
	all := devices()
	for len(c.ids) < atOnce {
		one := &all[rng.IntN(sensors)]
		w := system.Where{Type: one.Type, Project: one.Project, AltTo: one.Alt + 1,
			South: south + side/2*rng.Float64(), West: west + side/2*rng.Float64()}
		w.North, w.East = w.South+side/2, w.West+side/2
		c.selector = fmt.Sprintf("type=%s, project=%s, alt=..%v, within(%v,%v,%v,%v)", w.Type,
			strconv.Quote(w.Project), w.AltTo, w.South, w.West, w.North, w.East)
		c.ids = nil
		for i := range all {
			if w.Holds(&all[i]) {
				c.ids = append(c.ids, record.At(all[i].MID))
			}
		}
	}
	return c
}

// described asks for values in the top hundredth of 30 days, of chosen sensors.
func described(rng *rand.Rand, window func(widthNs int64) record.RangeSet) workload.Query {
	out := workload.Boxes(Selected, "T3 of the sensors of a type, in a rectangle, below an "+
		"altitude, of a project", func() (q system.Query) {
		c := choose(rng)
		q.Want, q.Above, q.Select = system.WantAbove, top*values, c.selector
		q.Box = record.Box{record.CID: workload.Point(tenant), record.MID: c.ids,
			record.MOID: workload.Point(quantity), record.Cap: window(30 * dayNs)}
		return q
	})
	out.Twins = slices.Clone(out.Boxes)
	for i := range out.Twins {
		out.Twins[i].Select = ""
	}
	return out
}
