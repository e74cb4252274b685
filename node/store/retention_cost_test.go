package store

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// costTenant puts rows at each tick, and its policy has an age by capture, 0 for none.
type costTenant struct {
	rows  int
	ageNs int64
}

// costShape is a store into which tenants put steadily.
type costShape struct {
	name     string
	long     bool // only make test-long takes the time
	turnNs   int64
	turns    int
	sealRows int
	lateNs   int64 // each twentieth row comes late by up to this
	tenants  []costTenant
}

// What retentions cost in stores of many shapes: how often a row is written, with policies and
// subtract, and in how many segments they are. All bytes are gone by the latest time meanwhile.
func TestRetentionWriteCost(t *testing.T) {
	rounds.NotUnderRace(t, "it counts what is written")
	three := []costTenant{{2, 3 * day}, {2, 10 * day}, {2, 30 * day}, {10, 0}}
	tenth := []costTenant{{1, 90 * day}, {9, 0}}
	for _, shape := range []costShape{
		{"three of four expire, few rows", false, 4 * hour, 300, 96, 0, three},
		{"a tenth expires, late rows", false, day, 200, 20, 30 * day, tenth},
		{"three of four expire, many rows", true, hour, 1200, 32, 0, three},
		{"three of four expire, late rows", true, hour, 1200, 32, day, three},
		{"a tenth expires", true, day, 400, 20, 0, tenth},
		{"a tenth of few rows expires", true, day, 400, 200, 0, tenth},
		{"all expire", true, day, 400, 20, 0, []costTenant{{10, 90 * day}}},
		{"all expire, late rows", true, day, 400, 20, 30 * day, []costTenant{{10, 90 * day}}},
		{"a week", true, 4 * hour, 300, 40, day, []costTenant{{1, 7 * day}, {9, 0}}},
		{"a week, rows older than that", true, 4 * hour, 300, 40, 30 * day,
			[]costTenant{{5, 7 * day}, {5, 0}}},
		{"a year", true, 2 * day, 400, 40, 30 * day, []costTenant{{1, 365 * day}, {9, 0}}},
		{"ten years", true, 10 * day, 800, 40, 30 * day, []costTenant{{1, 3650 * day}, {9, 0}}},
		{"ten years, all", true, 10 * day, 800, 40, 30 * day, []costTenant{{10, 3650 * day}}},
	} {
		if shape.long && !rounds.Long() {
			continue
		}
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			with, without := shape.written(t, true), shape.written(t, false)
			t.Logf("a row is written %.2f times, %.2f times without policies", with, without)
			if with > 2*without {
				t.Errorf("a row is written %.2f times, %.2f times without policies", with, without)
			}
		})
	}
}

// written runs a shape and returns how often a row is written.
func (c *costShape) written(t *testing.T, policies bool) float64 {
	a := newAging(t, Options{SealRows: c.sealRows, Index: index.Options{BlockRows: 64}})
	for cid, tenant := range c.tenants {
		if cid := int32(cid); policies && tenant.ageNs > 0 {
			a.set(retention.Rule{CID: &cid, MaxCapAgeNs: tenant.ageNs})
		}
	}
	segments, put := 0, 0
	for i := range c.turns {
		a.trueNs.Add(c.turnNs)
		b := &record.Batch{}
		for cid, tenant := range c.tenants {
			for range tenant.rows {
				capNs := a.trueNs.Load()
				if put++; put%20 == 0 && c.lateNs > 0 {
					capNs -= int64(uint64(put) * 0x9e3779b97f4a7c15 % uint64(c.lateNs))
				}
				k := record.Key{CID: int32(cid), MID: int64(put % 7), CapNs: capNs}
				b.Append(k, []byte("12345678"))
			}
		}
		mustPut(t, a.s, b, WriterSeq{})
		a.tick()
		segments += a.s.Stats().Segments
		if policies && i%60 == 59 {
			c.check(a)
		}
	}
	st := a.s.Stats()
	t.Logf("policies %v: %d rows put, %d sealed, %d merged, %d stored, %d segments", policies,
		st.RowsPut, st.SealedRows, st.MergedRows, st.Rows, segments/c.turns)
	return float64(st.SealedRows+st.MergedRows) / float64(st.RowsPut)
}

// check wants no row to be stored that is to be gone.
func (c *costShape) check(a *aging) {
	a.Helper()
	_, oldest := a.stored()
	for cid, r := range a.ages {
		at, some := oldest[cid]
		some = some && c.lateNs < r.MaxCapAgeNs // else rows are too old when they come
		if some && a.trueNs.Load()-at > latestAge(r)+3*c.turnNs {
			a.Fatalf("tenant %d: a row of %v is stored, the latest is %v", cid,
				time.Duration(a.trueNs.Load()-at), time.Duration(latestAge(r)))
		}
	}
}
