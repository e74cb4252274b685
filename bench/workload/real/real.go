// Package real is measured data: water meters (DAIAD), air quality (Beijing, UCI), road traffic
// (Berlin, Münster), imported one after the other, and questions across them.
//
// The files are the publishers', compressed; README.md beside this file says which. Its main type
// is [Config].
package real

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	_ "time/tzdata" // local times are read on machines without a zone database, too

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// Config is where the data are, and how much of them.
type Config struct {
	Dir  string
	Rows int // about; 0 means all
	Seed uint64
}

// set is one publisher's data; its number is the tenant.
type set struct {
	folder string
	zone   string
	values int // about how many there are
	read   func(dir string, zone *time.Location) iter.Seq2[reading, error]
}

// reading is one value of a file.
type reading struct {
	device   string
	quantity int32
	capNs    int64
	value    float64
}

// Tenants of the sets.
const (
	water = iota + 1
	air
	traffic
	counters
)

func sets() []set {
	return []set{
		{"daiad-water", "Europe/Madrid", 822_503, readWater},
		{"beijing-air", "Asia/Shanghai", 4_556_243, readAir},
		{"berlin-traffic", "Europe/Berlin", 3_271_523, readTraffic},
		{"muenster-traffic", "Europe/Berlin", 10_072_690, readCounters},
	}
}

// Workload returns the load and its queries, or an error when the data are not there.
func (c Config) Workload() (*workload.Workload, error) {
	for _, s := range sets() {
		if _, err := os.Stat(filepath.Join(c.Dir, s.folder)); err != nil {
			return nil, fmt.Errorf("no data in %q: %w; bench/workload/real/README.md says where "+
				"they come from", c.Dir, err)
		}
	}
	return &workload.Workload{Name: "real", PayloadBytes: system.NumberBytes, Versions: true,
		About: "water meters, air quality and road traffic of four cities, imported one after " +
			"the other; payload: float64",
		Phases: []workload.Phase{{Stream: c.stream, Queries: c.queries}}}, nil
}

// stream imports the sets one after the other.
type stream struct {
	next  func() (row, error, bool)
	batch workload.Batcher
	count int64
	err   error
}

// row is a reading with its tenant and the number of its device.
type row struct {
	reading
	tenant int32
	mid    int64
}

func (c Config) stream() (workload.Stream, error) {
	next, _ := iter.Pull2(c.rows()) // streams are read to their end, or the program ends
	return &stream{next: next}, nil
}

// rows numbers the devices of each set in the order in which they come.
func (c Config) rows() iter.Seq2[row, error] {
	total := 0
	for _, s := range sets() {
		total += s.values
	}
	return func(yield func(row, error) bool) {
		for i, s := range sets() {
			zone, err := time.LoadLocation(s.zone)
			if err != nil {
				yield(row{}, err)
				return
			}
			numbers := map[string]int64{}
			left := s.values
			if c.Rows > 0 && c.Rows < total {
				left = int(float64(c.Rows) * float64(s.values) / float64(total))
			}
			for x, err := range s.read(filepath.Join(c.Dir, s.folder), zone) {
				if left--; left < 0 && c.Rows > 0 {
					break
				}
				mid, known := numbers[x.device]
				if !known {
					mid = int64(len(numbers))
					numbers[x.device] = mid
				}
				if !yield(row{x, int32(i + 1), mid}, err) || err != nil {
					return
				}
			}
		}
	}
}

// importedNs is when the import begins; a batch comes each second.
func importedNs() int64 { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() }

// Next implements [workload.Stream].
func (s *stream) Next(b *record.Batch) bool {
	workload.Begin(b)
	for b.Len() < workload.BatchRows {
		x, err, ok := s.next()
		if !ok || err != nil {
			s.err = err
			break
		}
		workload.AppendRow(b, x.tenant, x.mid, x.quantity, x.capNs, x.value)
	}
	s.count++
	return s.err == nil && s.batch.Seal(b, importedNs()+s.count*int64(time.Second))
}

// Err implements [workload.Stream].
func (s *stream) Err() error { return s.err }
