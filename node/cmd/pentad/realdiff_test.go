package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// waterRow is a reading of a water meter, and when it arrives.
type waterRow struct {
	key       record.Key
	payload   [8]byte
	arrivesNs int64
}

// stuckAfter is how long a meter says nothing before what it said last counts as stuck in it: it
// arrives when the meter is heard again.
const stuckAfter = 6 * time.Hour

// waterArrivals reads the meters whose number is a multiple of four, and orders their readings by
// arrival. Each comes as it is taken, but for those of the two days before a silence.
func waterArrivals(t *testing.T) []waterRow {
	t.Helper()
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	meters := map[string]int64{}
	byMeter := map[int64][]waterRow{}
	for _, row := range readCSV(t, realData(t, "daiad-water/swm_trialA.csv.gz"), ';')[1:] {
		mid, known := meters[row[0]]
		if !known {
			mid = int64(len(meters))
			meters[row[0]] = mid
		}
		if mid%4 != 0 {
			continue
		}
		at, err := time.ParseInLocation("02/01/2006 15:04:05", row[1], madrid)
		if err != nil {
			t.Fatal(err)
		}
		value, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		r := waterRow{key: record.Key{CID: 1, MID: mid, MOID: 1, CapNs: at.UnixNano()},
			arrivesNs: at.UnixNano()}
		binary.LittleEndian.PutUint64(r.payload[:], uint64(value))
		byMeter[mid] = append(byMeter[mid], r)
	}
	var all []waterRow
	for _, rows := range byMeter {
		slices.SortStableFunc(rows, func(a, b waterRow) int {
			return cmp.Compare(a.key.CapNs, b.key.CapNs)
		})
		for i := len(rows) - 2; i >= 0; i-- {
			if rows[i+1].key.CapNs-rows[i].key.CapNs < int64(stuckAfter) {
				continue
			}
			stuckFrom := rows[i].key.CapNs - int64(48*time.Hour)
			for k := i; k >= 0 && rows[k].key.CapNs > stuckFrom; k-- {
				rows[k].arrivesNs = rows[i+1].arrivesNs
			}
		}
		all = append(all, rows...)
	}
	slices.SortStableFunc(all, func(a, b waterRow) int {
		return cmp.Or(cmp.Compare(a.arrivesNs, b.arrivesNs), cmp.Compare(a.key.MID, b.key.MID))
	})
	return all
}

// monthEnd is what was known at the end of a month, and the moment of acq.
type monthEnd struct {
	end   time.Time
	acqNs int64
	known map[record.Key][8]byte
}

// TestWaterCorrections replays a year of water meters as their readings may have arrived. At the
// end of each month the month is billed; what came late for it is what diff says at the end.
func TestWaterCorrections(t *testing.T) {
	_, db := testNode(t)
	rows := waterArrivals(t)
	known := map[record.Key][8]byte{}
	var months []monthEnd
	end := time.Unix(0, rows[0].arrivesNs).UTC()
	end = time.Date(end.Year(), end.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	var b record.Batch
	put := func() {
		t.Helper()
		if b.Len() == 0 {
			return
		}
		if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	}
	for i := range rows {
		for r := &rows[i]; r.arrivesNs >= end.UnixNano(); end = end.AddDate(0, 1, 0) {
			put()
			months = append(months, billed(t, db, end, known))
		}
		b.Append(rows[i].key, rows[i].payload[:])
		known[rows[i].key] = rows[i].payload
		if b.Len() == 5000 {
			put()
		}
	}
	put()
	now, err := db.Horizon(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for _, m := range months {
		late += checkLate(t, db, &m, now, known)
	}
	if len(months) < 11 || late < 1000 {
		t.Errorf("%d readings came late for %d months", late, len(months))
	}
	t.Logf("%d of %d readings came late for %d months", late, len(rows), len(months))
}

// billed remembers what is known of all caps before the end of a month.
func billed(
	t *testing.T, db *client.Client, end time.Time, known map[record.Key][8]byte,
) monthEnd {
	t.Helper()
	acqNs, err := db.Horizon(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := monthEnd{end: end, acqNs: acqNs, known: map[record.Key][8]byte{}}
	for key, payload := range known {
		if key.CapNs < end.UnixNano() {
			m.known[key] = payload
		}
	}
	return m
}

// checkLate holds the difference between the end of a month and now against two maps.
func checkLate(
	t *testing.T, db *client.Client, m *monthEnd, nowNs int64, known map[record.Key][8]byte,
) int {
	t.Helper()
	want := map[record.Key]record.DiffKind{}
	for key, payload := range known {
		was, ok := m.known[key]
		switch {
		case key.CapNs >= m.end.UnixNano() || ok && was == payload:
		case ok:
			want[key] = record.DiffChanged
		default:
			want[key] = record.DiffAdded
		}
	}
	ask := &record.Diff{FromNs: m.acqNs, ToNs: nowNs}
	ask.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(), To: m.end.UnixNano()}}
	count := 0
	for d, err := range db.Diff(t.Context(), ask) {
		if err != nil {
			t.Fatal(err)
		}
		count++
		key := d.New.Key
		key.AcqNs = 0
		is, was := known[key], m.known[key]
		if d.Kind != want[key] || !bytes.Equal(d.New.Payload, is[:]) ||
			d.Kind == record.DiffChanged && !bytes.Equal(d.Old.Payload, was[:]) {
			t.Fatalf("month up to %s: %+v, want kind %v from %x to %x", m.end, d, want[key], was,
				is)
		}
	}
	if count != len(want) {
		t.Errorf("month up to %s: %d differences, want %d", m.end, count, len(want))
	}
	return count
}
