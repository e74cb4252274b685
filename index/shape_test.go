package index

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestSeriesSeen: the number of series follows from how many of them a sample meets.
func TestSeriesSeen(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ series, readings, each int }{
		{100, 1000, 50}, {5000, 40, 1}, {5000, 40, 10}, {50_000, 8, 20},
	} {
		seen := map[int]bool{}
		for range c.series * c.readings / c.each {
			seen[rng.IntN(c.series)] = true
		}
		rows := float64(c.series * c.readings)
		got := seriesSeen(float64(len(seen)), rows, 1/float64(c.each))
		if math.Abs(got/float64(c.series)-1) > 0.1 {
			t.Errorf("%+v: %d seen, taken for %.0f", c, len(seen), got)
		}
	}
}

// TestReadingsOfSeries: the rows of a device lie in few blocks, also where devices are so many
// that blocks as narrow in time as in devices would hold less than a reading of each.
func TestReadingsOfSeries(t *testing.T) {
	const devices, readings, blockRows = 2000, 40, 64
	var rows record.Batch
	for slot := range int64(readings) {
		for device := range int64(devices) {
			rows.AppendStamped(record.Key{CID: 1, MID: device*7919%devices + 5, MOID: 2,
				CapNs: slot * 1e9, AcqNs: slot*devices + device}, nil)
		}
	}
	l := Partition(&rows, Options{BlockRows: blockRows})
	lies, from := 0, uint32(0) // pairs of a device and a block that has rows of it
	for _, end := range l.BlockEnds {
		in := map[int64]bool{}
		for _, mid := range l.Keys.MID[from:end] {
			in[mid] = true
		}
		lies += len(in)
		from = end
	}
	if each := float64(lies) / devices; each > 1.2*readings/2 {
		t.Errorf("the %d rows of a device lie in %.1f blocks", readings, each)
	}
}
