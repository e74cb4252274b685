// Package demodata makes readings of electricity meters that look like real ones: a load shape
// over the day, a quieter week-end, mains voltage, outdoor temperature. Some readings arrive late
// and some are corrected a day after, as in every real network.
//
// The same [Plan] makes the same readings, in the same order of arrival. The package knows
// nothing of nodes or terminals and starts no goroutines.
package demodata

import (
	"encoding/binary"
	"iter"
	"math"
	"time"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// Quantities, by moid.
const (
	PowerKW      int32 = 1
	VoltageV     int32 = 2
	TemperatureC int32 = 3

	NumQuantities = 3
)

// Quantities are what is to be declared of the payloads.
func Quantities() []plugin.Quantity {
	return []plugin.Quantity{{MOID: PowerKW, Name: "power", Unit: "kW", Type: "f64"},
		{MOID: VoltageV, Name: "voltage", Unit: "V", Type: "f64"},
		{MOID: TemperatureC, Name: "temperature", Unit: "°C", Type: "f64"}}
}

const (
	// Step is the distance of two readings: what European meters deliver.
	Step         = 15 * time.Minute
	stepsPerDay  = int(24 * time.Hour / Step)
	metersPerCID = 50  // so that a cid is a town of 50 meters
	lateOneIn    = 50  // 2 % of the readings come 1 to 24 hours late
	correctOneIn = 100 // 1 % are corrected a day later
)

// Plan says how much to make. Days end with the day before End.
type Plan struct {
	Meters int
	Days   int
	End    time.Time
}

// Kind says why a reading arrives.
type Kind uint8

// Kinds of readings.
const (
	OnTime     Kind = 0
	Late       Kind = 1
	Correction Kind = 2
)

// Reading is one record and why it arrives. The payload is an f64.
type Reading struct {
	Key   record.Key
	Value float64
	Kind  Kind
}

// AppendPayload appends the payload of a reading: an f64, little-endian.
func (r Reading) AppendPayload(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.Value))
}

// Base returns the number of readings without corrections.
func (p Plan) Base() int { return p.Meters * NumQuantities * p.Days * stepsPerDay }

// About returns roughly how many readings All yields, corrections included.
func (p Plan) About() int { return p.Base() + p.Base()/correctOneIn }

// Start returns the first capture time.
func (p Plan) Start() time.Time {
	return p.End.UTC().Truncate(24*time.Hour).AddDate(0, 0, -p.Days)
}

// CID returns the tenant of a meter; meters count from 1.
func CID(meter int) int32 { return int32(1 + (meter-1)/metersPerCID) }

// All yields every reading in order of arrival. It holds what arrives later than its turn: about
// 3 % of a day.
func (p Plan) All() iter.Seq[Reading] {
	return func(yield func(Reading) bool) {
		waiting := map[int][]Reading{} // by step of arrival
		start := p.Start()
		steps := p.Days * stepsPerDay
		last := steps + stepsPerDay + 1
		for step := range last + 1 {
			for _, r := range waiting[step] {
				if !yield(r) {
					return
				}
			}
			delete(waiting, step)
			if step >= steps {
				continue
			}
			at := start.Add(time.Duration(step) * Step)
			for meter := 1; meter <= p.Meters; meter++ {
				for moid := PowerKW; moid <= NumQuantities; moid++ {
					r := reading(meter, moid, step, at)
					random := mix(uint64(meter)<<40 ^ uint64(moid)<<32 ^ uint64(step) ^ 0x5bd1)
					if random%correctOneIn == 0 {
						c := r
						c.Kind, c.Value = Correction, round(r.Value*1.05+0.2, 3)
						waiting[step+stepsPerDay+1] = append(waiting[step+stepsPerDay+1], c)
					}
					if random>>16%lateOneIn == 0 {
						r.Kind = Late
						arrival := step + 4 + int(random>>32%uint64(stepsPerDay-4))
						waiting[arrival] = append(waiting[arrival], r)
						continue
					}
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}

func reading(meter int, moid int32, step int, at time.Time) Reading {
	noise := mix(uint64(meter)<<34 ^ uint64(moid)<<30 ^ uint64(step))
	jitter := float64(noise>>11)/(1<<53) - 0.5
	size := 0.5 + float64(mix(uint64(meter))%100)/100
	hour := float64(at.Hour()) + float64(at.Minute())/60
	r := Reading{Key: record.Key{CID: CID(meter), MID: int64(meter), MOID: moid,
		CapNs: at.UnixNano()}}
	switch moid {
	case PowerKW:
		load := 0.15 + 0.9*bump(hour, 7.5, 1.2) + 1.6*bump(hour, 19, 2) + 0.4*bump(hour, 12.5, 1.5)
		if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
			load = 0.25 + 0.7*bump(hour, 10, 2.5) + 1.4*bump(hour, 19, 2.5)
		}
		r.Value = round(size*load*(1+0.6*jitter), 3)
	case VoltageV:
		r.Value = round(231-3*bump(hour, 19, 2.5)+2.4*jitter, 1)
	default:
		day := float64(step) / float64(stepsPerDay)
		r.Value = round(8+4*math.Sin(day/4)+5*math.Cos((hour-15)/24*2*math.Pi)+jitter, 1)
	}
	return r
}

// bump is a rise around a centre in hours.
func bump(hour, centre, width float64) float64 {
	d := (hour - centre) / width
	return math.Exp(-d * d / 2)
}

func round(f float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(f*scale) / scale
}

// mix is the finaliser of splitmix64: every bit of the input reaches every bit of the output.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
