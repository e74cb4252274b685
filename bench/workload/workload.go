// Package workload says what a workload is: records in the order in which they arrive, queries over
// them, and an oracle that answers by looking at every row.
//
// Rows are made again rather than kept, so that any size can be run and checked. It knows no
// database. [Answers] divides its work among goroutines and waits for them. Its main type is
// [Workload].
package workload

import (
	"fmt"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// BatchRows is how many records a batch holds at most.
const BatchRows = 10_000

// Workload is a load in one or more phases, each followed by queries.
type Workload struct {
	Name, About  string
	PayloadBytes int
	Versions     bool // keys come more than once
	Phases       []Phase
	// Devices are those of tenant DevicesCID that are described, for queries with selectors.
	Devices    []system.Device
	DevicesCID int32
}

// Phase is a part of the load, and what is asked after it.
type Phase struct {
	Name    string // empty when it is the only one
	Stream  func() (Stream, error)
	Queries func(s *Survey) []Query
}

// Stream makes the batches of a phase in the order of arrival.
type Stream interface {
	// Next fills b with the next batch and reports whether there was one. AcqNs holds, for every
	// row, when the batch arrives; batches are at least BatchRows ns apart. A node whose clock
	// stands there stamps the batch with that and the following nanoseconds; which row gets which
	// is its own business.
	Next(b *record.Batch) bool
	// Err returns what ended the stream early.
	Err() error
}

// First returns the first batches of a stream.
func First(s Stream, batches int) Stream { return &first{s, batches} }

type first struct {
	Stream
	left int
}

func (f *first) Next(b *record.Batch) bool {
	if f.left == 0 {
		return false
	}
	f.left--
	return f.Stream.Next(b)
}

// Query is one question, asked with several boxes.
type Query struct {
	Name  string
	About string
	Boxes []system.Query
	// Twins ask the same as the boxes in another way, if there are any: each right before or after
	// its box, so that the two can be compared.
	Twins []system.Query
}

// String names the query.
func (q Query) String() string { return fmt.Sprintf("%s (%s)", q.Name, q.About) }

// Want returns what is asked for of every box.
func (q Query) Want() system.Want { return q.Boxes[0].Want }

// Survey is what one pass over the stream tells.
type Survey struct {
	Stamps []int64 // the first stamp of each batch, of all phases so far
	Shape  system.Shape
	series map[uint64]struct{} // hashes of (cid, mid, moid)
}

// NewSurvey returns a survey of nothing yet.
func (w *Workload) NewSurvey() *Survey {
	s := &Survey{series: map[uint64]struct{}{}}
	s.Shape.PayloadBytes, s.Shape.Versions = w.PayloadBytes, w.Versions
	return s
}

// End says that all phases are added, and frees what only the next would need.
func (s *Survey) End() { s.series = nil }

// Add surveys a phase.
func (s *Survey) Add(p Phase) error {
	stream, err := p.Stream()
	if err != nil {
		return err
	}
	var b record.Batch
	for stream.Next(&b) {
		s.addBatch(&b)
	}
	s.Shape.Series = len(s.series)
	return stream.Err()
}

func (s *Survey) addBatch(b *record.Batch) {
	s.Stamps = append(s.Stamps, b.AcqNs[0])
	for i := range b.Len() {
		k := b.Key(i)
		k.AcqNs += int64(i)
		for d := range record.NumDims {
			v, r := k.Part(record.Dim(d)), &s.Shape.Extent[d]
			if s.Shape.Records == 0 {
				*r = record.At(v)
			}
			r.From, r.To = min(r.From, v), max(r.To, v+1)
		}
		s.Shape.Records++
		s.series[hashRow(record.Key{CID: k.CID, MID: k.MID, MOID: k.MOID}, nil)] = struct{}{}
	}
}
