package store

import (
	"errors"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestExplain asks at random, in all views, of several shards, heads and segments: the rows are as
// many as there are, every block is accounted for, and candidates are what a look at every zone
// finds.
func TestExplain(t *testing.T) {
	rounds.NotUnderRace(t, "it looks at plans in one goroutine")
	for _, limit := range []int{0, 20} {
		rng := randomSource(t)
		sh := shape{cids: 3, mids: 200, moids: 3, caps: 300}
		s := openTest(t, Options{Shards: 4, Workers: 3, maxReadings: limit,
			Index: index.Options{BlockRows: 64}})
		m := &model{}
		for i := range mergepolicy.FanIn*2 - 1 { // too few segments to be merged
			b := sh.batch(rng, 1500, 0)
			for r := range b.CapNs { // so that caps tell segments apart
				b.CapNs[r] += int64(i/2) * sh.caps * int64(time.Minute)
			}
			m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, WriterSeq{}))
			if i%2 == 1 {
				if err := s.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		dropped := map[string]int{}
		// Which of them drops something is chance.
		whats := []string{"cap", "acq", "bounds", "lists", "zones", "inside"}
		missing := func(what string) bool { return dropped[what] == 0 }
		for n := 0; n < rounds.Of(200, 80, 80) || slices.ContainsFunc(whats, missing); n++ {
			if n == 2000 {
				t.Fatalf("not all of %v dropped something: %v", whats, dropped)
			}
			q := sh.query(rng, m)
			x, err := s.Explain(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if want := len(m.query(q)); int(x.Found) != want || want > 0 && x.Workers == 0 ||
				x.PlanNs > x.TookNs || x.Shards != 4 || x.ShardsAsked > x.Heads {
				t.Fatalf("want %d rows: %+v of %+v", want, x, q)
			}
			checkExplained(t, s, q, &x, dropped)
		}
	}
}

// checkExplained adds up what an explanation says, and counts what dropped blocks.
func checkExplained(
	t *testing.T, s *Store, q *record.Query, x *api.Explanation, dropped map[string]int,
) {
	t.Helper()
	by := x.DroppedByZones
	zones := by.CID + by.MID + by.MOID + by.Cap + by.Acq
	if x.Blocks != x.DroppedByBounds+x.DroppedByLists+zones+x.Candidates {
		t.Fatalf("blocks do not add up: %+v", x)
	}
	if q.View == record.ViewAll && (x.Opened != uint64(x.Candidates) || x.Hidden != 0) ||
		x.Opened > 0 != (x.OpenedBytes > 0) || x.Examined > x.Opened*64 {
		t.Fatalf("what was opened: %+v", x)
	}
	dropped["lists"] += x.DroppedByLists
	dropped["bounds"] += x.DroppedByBounds
	dropped["zones"] += zones
	dropped["inside"] += x.Inside
	box := widened(q, x.HorizonNs)
	sum, at := 0, 0
	for _, sh := range s.shards {
		state := sh.State.Load()
		for i := len(state.Sealed) - 1; i >= 0 && at < len(x.Segments); i-- {
			seg := &x.Segments[at]
			if seg.ID != state.Sealed[i].Meta.ID {
				break // the shard was not asked
			}
			at++
			sum += seg.Candidates
			dropped[seg.SkippedBy]++
			if want := meeting(state.Sealed[i], &box); seg.Candidates != want ||
				seg.Shard != sh.ID || seg.Blocks != state.Sealed[i].Index.Blocks() ||
				seg.SkippedBy != skippedBy(state.Sealed[i], &box) {
				t.Fatalf("%d blocks meet %v: %+v", want, box, seg)
			}
		}
	}
	if at != len(x.Segments) || sum != x.Candidates {
		t.Fatalf("%d of %d segments, %d candidates: %+v", at, len(x.Segments), sum, x)
	}
}

// widened is the box of all that may be the answer or hide some of it.
func widened(q *record.Query, horizonNs int64) record.Box {
	box := q.Box
	if q.View == record.ViewAsOf {
		horizonNs = min(horizonNs, q.AsOfAcqNs)
	}
	if q.View == record.ViewAll && len(box[record.Acq]) > 0 {
		box[record.Acq] = bounds.Clip(box[record.Acq], horizonNs)
		return box
	}
	fromNs := int64(math.MinInt64)
	if len(box[record.Acq]) > 0 {
		fromNs = box[record.Acq][0].From
	}
	box[record.Acq] = record.RangeSet{{From: fromNs, To: horizonNs}}
	return box
}

// meeting counts the blocks whose zones meet a box, one by one.
func meeting(seg *shards.Segment, box *record.Box) int {
	byRank := *box
	byRank[record.Acq] = seg.Index.AppendRankRanges(nil, box)
	count := 0
	for i := range seg.Index.Blocks() {
		b, meets := seg.Index.Block(uint32(i)), len(byRank[record.Acq]) > 0
		for d := range record.NumDims {
			meets = meets && byRank[d].Intersects(b.Min[d], b.Max[d])
		}
		if meets {
			count++
		}
	}
	return count
}

// skippedBy looks at every block for the dimension in which none can match.
func skippedBy(seg *shards.Segment, box *record.Box) string {
	for d := range record.NumDims {
		lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
		for i := range seg.Index.Blocks() {
			b := seg.Index.Block(uint32(i))
			lo, hi = min(lo, b.Min[d]), max(hi, b.Max[d])
		}
		if record.Dim(d) != record.Acq && !box[d].Intersects(lo, hi) {
			return record.Dim(d).String()
		}
	}
	if len(seg.Index.AppendRankRanges(nil, box)) == 0 {
		return record.Acq.String()
	}
	return ""
}

// TestExplainHidden: every version is found or hidden, also when a scan is cut into partitions.
func TestExplainHidden(t *testing.T) {
	s := correctedStore(t, Options{Shards: 2, HeadShards: 1, Index: index.Options{BlockRows: 128}})
	for _, limit := range []int{7, 1 << 18} {
		s.scans.Access.MaxReadings = limit
		x, err := s.Explain(t.Context(), &record.Query{View: record.ViewLatest})
		if err != nil || x.Found != 3000 || x.Hidden != 6000 || x.Heads != 2 ||
			x.HeadRows != 3000 || x.HeadFound != 3000 || len(x.Segments) != 4 {
			t.Errorf("space for %d: %+v, %v", limit, x, err)
		}
	}
}

// TestExplainNothing: no acq is asked for that a row can have.
func TestExplainNothing(t *testing.T) {
	s := correctedStore(t, Options{Shards: 2})
	q := &record.Query{Box: record.Box{record.Acq: {{From: math.MaxInt64 - 1, To: math.MaxInt64}}}}
	x, err := s.Explain(t.Context(), q)
	if err != nil || x.Shards != 2 || x.ShardsAsked != 0 || x.Segments == nil || x.Blocks != 0 {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestExplainReadsPayloads: what a scan cannot answer, for payloads are damaged, is not explained
// either, and it costs what the scan does.
func TestExplainReadsPayloads(t *testing.T) {
	dir, rng := t.TempDir(), randomSource(t)
	s := openTest(t, Options{Dir: dir, Shards: 1, Now: later})
	b := &record.Batch{}
	for i := range int64(200) {
		payload := make([]byte, 1000)
		for k := range payload {
			payload[k] = byte(rng.Uint32())
		}
		b.Append(record.Key{CID: 1, MID: i, MOID: 1, CapNs: i}, payload)
	}
	mustPut(t, s, b, WriterSeq{})
	if err := errors.Join(s.Seal(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.segmentPath(1))
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)/2] ^= 1 // nearly all of it are payloads
	if err := os.WriteFile(s.segmentPath(1), whole, 0o644); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, Options{Dir: dir, Now: later})
	var damage *durable.CorruptError
	_, err = s.Explain(t.Context(), &record.Query{})
	if !errors.As(err, &damage) {
		t.Errorf("an explanation of damaged payloads: %v", err)
	}
}
