// Package peertest holds a system against the oracle on a small random workload that asks for
// everything a query can: all wants, all views, ranges of every part.
package peertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/record"
)

// Options say what a system can take.
type Options struct {
	Versions bool // corrected and late readings
	Status   bool // payloads with a status word
}

const (
	batches   = 12
	batchRows = 700
	startNs   = int64(1_709_251_200_000_000_000) // 2024-03-01
	stepNs    = int64(time.Minute)
)

// Run loads a workload in two halves, closing the system between them, and compares every answer.
// Answers that the system does not support are logged, and at least one must be right. A system
// that is not installed is skipped.
func Run(t *testing.T, kind system.Kind, opt Options) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := plain(rand.New(rand.NewPCG(seed, 0)), opt)
	survey := w.NewSurvey()
	for _, p := range w.Phases {
		if err := survey.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	dir := folder(t)
	load(t, kind, dir, w, survey, 0)
	ask(t, kind, dir, w, survey)
}

// folder is one that servers with users of their own can enter.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "peer-") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, kind system.Kind, dir string, s *workload.Survey) system.System {
	t.Helper()
	db, err := kind.Open(t.Context(), dir, s.Shape)
	if missing := system.MissingError(""); errors.As(err, &missing) {
		required.Skip(t, required.Peers, fmt.Sprintf("%s: %s", kind.Name, missing))
	}
	if err != nil {
		t.Fatalf("%s: open: %v", kind.Name, err)
	}
	return db
}

// load puts half of the batches, closes the system, and puts the rest.
func load(t *testing.T, kind system.Kind, dir string, w *workload.Workload, s *workload.Survey,
	done int) {
	t.Helper()
	db := open(t, kind, dir, s)
	stream, err := w.Phases[0].Stream()
	if err != nil {
		t.Fatal(err)
	}
	var b record.Batch
	for i := 0; stream.Next(&b); i++ {
		if i < done {
			continue
		}
		for r := range b.AcqNs {
			b.AcqNs[r] += int64(r)
		}
		if err := db.Put(t.Context(), &b); err != nil {
			t.Fatalf("%s: put: %v", kind.Name, err)
		}
		if done == 0 && i == batches/2 {
			break
		}
	}
	if err := db.Settle(t.Context()); err != nil {
		t.Fatalf("%s: settle: %v", kind.Name, err)
	}
	if err := db.Close(); err != nil {
		t.Fatalf("%s: close: %v", kind.Name, err)
	}
	if done == 0 {
		load(t, kind, dir, w, s, batches/2+1)
	}
}

func ask(t *testing.T, kind system.Kind, dir string, w *workload.Workload, s *workload.Survey) {
	t.Helper()
	queries := w.Phases[0].Queries(s)
	o, err := workload.NewOracle(queries)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := w.Phases[0].Stream()
	if err != nil {
		t.Fatal(err)
	}
	var b record.Batch
	for stream.Next(&b) {
		o.Add(&b)
	}
	db := open(t, kind, dir, s)
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("%s: close: %v", kind.Name, err)
		}
	}()
	answered := 0
	for i, answers := range o.Answers() {
		q := queries[i]
		for j, want := range answers {
			box := q.Boxes[j]
			if err := box.Normalize(); err != nil {
				t.Fatal(err)
			}
			var got workload.Answer
			rows, err := db.Ask(t.Context(), &box, func(b *record.Batch) {
				got.Add(b, box.Want, s.Stamps)
			})
			if box.Want == system.WantCount {
				got.Rows = rows
			}
			if unsupported := system.UnsupportedError(""); errors.As(err, &unsupported) {
				t.Logf("%s: %s: %s", kind.Name, q, unsupported)
				continue
			}
			if err != nil || !got.Equals(want, kind.NoAcq) || rows != want.Rows {
				t.Errorf("%s: %s, box %d %v: %+v and %d rows, want %+v; %v", kind.Name, q, j,
					box.Box, got, rows, want, err)
			}
			answered++
			if t.Failed() {
				break
			}
		}
	}
	if answered == 0 {
		t.Errorf("%s answers nothing", kind.Name)
	}
}

// stream hands out batches that were made before.
type stream struct{ rest []record.Batch }

// Next implements [workload.Stream].
func (s *stream) Next(b *record.Batch) bool {
	if len(s.rest) == 0 {
		return false
	}
	from := &s.rest[0]
	b.Reset()
	b.AcqNs = b.AcqNs[:0]
	for i := range from.Len() {
		b.AppendStamped(from.Key(i), from.Payload(i))
	}
	s.rest = s.rest[1:]
	return true
}

// Err implements [workload.Stream].
func (s *stream) Err() error { return nil }

const (
	tenants    = 3
	devices    = 9 // a tenth never sends
	quantities = 4
)

// plain is a workload of readings a minute apart, in the order of their capture but for late ones.
func plain(rng *rand.Rand, opt Options) *workload.Workload {
	payloadBytes := system.NumberBytes
	if opt.Status {
		payloadBytes = system.StatusBytes
	}
	var all []record.Batch
	used := map[record.Key]bool{}
	slot := int64(0)
	for i := range batches {
		var b record.Batch
		arrival := startNs + int64(i+1)*int64(time.Hour)
		for b.Len() < batchRows {
			k := record.Key{MID: 4_000_000_000 + rng.Int64N(devices),
				MOID:  int32(rng.IntN(quantities)),
				CapNs: startNs + slot/20*stepNs, AcqNs: arrival}
			k.CID = int32(k.MID % tenants)
			slot++
			if opt.Versions && rng.IntN(5) == 0 {
				k.CapNs = startNs + rng.Int64N(slot/20+1)*stepNs
			}
			same := k
			if same.AcqNs = 0; used[same] && !opt.Versions {
				continue
			}
			if same.AcqNs = arrival; used[same] {
				continue // which of two in a batch is newer is the node's business
			}
			used[same] = true
			same.AcqNs = 0
			used[same] = true
			payload := system.AppendNumber(nil, float64(rng.IntN(1000)-100))
			if opt.Status {
				payload = binary.LittleEndian.AppendUint64(payload, uint64(rng.IntN(4)))
			}
			b.AppendStamped(k, payload)
		}
		all = append(all, b)
	}
	return &workload.Workload{Name: "plain", PayloadBytes: payloadBytes, Versions: opt.Versions,
		Phases: []workload.Phase{{
			Stream: func() (workload.Stream, error) { return &stream{all}, nil },
			Queries: func(s *workload.Survey) []workload.Query {
				return questions(rng, s, slot/20)
			}}}}
}

// questions asks for everything in every way.
func questions(rng *rand.Rand, s *workload.Survey, minutes int64) []workload.Query {
	var out []workload.Query
	for want := system.WantRows; want <= system.WantGroups; want++ {
		for view := record.ViewAll; view <= record.ViewAsOf; view++ {
			if want == system.WantLast && view != record.ViewAll ||
				view != record.ViewAll && !s.Shape.Versions {
				continue
			}
			q := workload.Query{Name: [...]string{"rows", "count", "last", "above", "groups"}[want],
				About: [...]string{"all", "latest", "as of"}[view]}
			for range 12 {
				x := system.Query{Query: record.Query{View: view}, Want: want,
					Above: float64(rng.IntN(900)), Func: system.Func(rng.IntN(3))}
				if view == record.ViewAsOf {
					x.AsOfAcqNs = s.Stamps[rng.IntN(len(s.Stamps))]
				}
				if want == system.WantGroups {
					x.By = record.GroupBy{CID: rng.IntN(2) == 0, MID: rng.IntN(2) == 0,
						MOID: rng.IntN(2) == 0, CapBucketNs: rng.Int64N(3) * 7 * stepNs}
				}
				x.Box = box(rng, s, want, view, minutes)
				q.Boxes = append(q.Boxes, x)
			}
			out = append(out, q)
		}
	}
	return out
}

func box(rng *rand.Rand, s *workload.Survey, want system.Want, view record.View,
	minutes int64) (x record.Box) {
	constrained := func() bool { return rng.IntN(2) == 0 }
	mid := 4_000_000_000 + rng.Int64N(devices)
	if constrained() {
		x[record.MID] = record.RangeSet{{From: mid, To: mid + 1 + rng.Int64N(3)}}
	}
	if constrained() {
		x[record.CID] = record.RangeSet{record.At(mid % tenants)}
	}
	if constrained() {
		x[record.MOID] = record.RangeSet{record.At(rng.Int64N(quantities))}
	}
	if constrained() && want != system.WantLast {
		from := startNs + rng.Int64N(minutes)*stepNs
		x[record.Cap] = record.RangeSet{{From: from, To: from + rng.Int64N(minutes)*stepNs + 1}}
	}
	if view == record.ViewAll && want != system.WantLast && rng.IntN(4) == 0 {
		i := rng.IntN(len(s.Stamps) - 1)
		x[record.Acq] = record.RangeSet{{From: s.Stamps[i], To: s.Stamps[i+1]}}
	}
	return x
}
