package index

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
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
	l := clusterRows(&rows, Options{BlockRows: blockRows})
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

// TestMomentsOfLongTimes: what is asked of a moment opens no more blocks the longer the time is
// that a segment covers, and what is asked of a device opens one for each 16 readings at most.
func TestMomentsOfLongTimes(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	const devices, blockRows = 64, 256
	for _, readings := range []int64{512, 1024, 8192} {
		var rows record.Batch
		for slot := range readings {
			for device := range int64(devices) {
				rows.AppendStamped(record.Key{CID: 1, MID: device * 3, MOID: 2,
					CapNs: slot * int64(6*time.Hour), AcqNs: slot*devices + device}, nil)
			}
		}
		l := clusterRows(&rows, Options{BlockRows: blockRows})
		met, lies, from := 0, 0, uint32(0)
		for _, end := range l.BlockEnds {
			caps, mids := map[int64]bool{}, map[int64]bool{}
			for i := from; i < end; i++ {
				caps[l.Keys.CapNs[i]], mids[l.Keys.MID[i]] = true, true
			}
			met, lies, from = met+len(caps), lies+len(mids), end
		}
		moment, device := float64(met)/float64(readings), float64(lies)/devices
		if most := 2 * devices * float64(enoughReadings) / blockRows; moment > most {
			t.Errorf("of %d readings a moment lies in %.1f blocks, %.1f are enough", readings,
				moment, most)
		}
		if most := 2 * float64(readings) / enoughReadings; device > most {
			t.Errorf("of %d readings a device lies in %.1f blocks, %.1f are enough", readings,
				device, most)
		}
	}
}

// TestDevicesTakeTurns: a device whose readings come an hour later than those of the others is not
// late, however the rows that are looked at meet it.
func TestDevicesTakeTurns(t *testing.T) {
	for _, devices := range []int64{2, 4, 64} {
		var rows record.Batch
		for i := range int64(2 * lateWindow) {
			behind := i % devices % 2 * int64(time.Hour)
			rows.AppendStamped(record.Key{CID: 1, MID: i % devices, MOID: 2,
				CapNs: i/devices*int64(time.Second) - behind, AcqNs: i}, nil)
		}
		if l := clusterRows(&rows, Options{BlockRows: 1024}); l.OnTime != len(l.BlockEnds) {
			t.Errorf("%d devices: %d of %d blocks are of late rows", devices,
				len(l.BlockEnds)-l.OnTime, len(l.BlockEnds))
		}
	}
}
