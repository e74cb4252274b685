package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// waterReading is a row of the file and when it came.
type waterReading struct {
	meter, capNs, acqNs int64
	monthNs             int64 // start of the month of cap
	register            int64
	order               int // in the file
}

const (
	waterGap = 90 * time.Minute // a meter that is silent for longer sends what it has afterwards
	// waterMaxStep is litres: 35 rows of the file say that more ran through in an hour.
	waterMaxStep = 2000
)

// readWater reads the file and lets each meter send its rows when a gap behind them ends: what it
// measured without a break comes together, some of it months later. Rows come once a day.
func readWater(t *testing.T, madrid *time.Location, meters int) (
	all []waterReading, numbers map[string]int64) {
	t.Helper()
	numbers = map[string]int64{}
	runs := map[int64][]int{} // by meter: what it has not sent yet
	arrive := func(run []int, heardNs int64) {
		const day = int64(24 * time.Hour)
		for _, i := range run {
			all[i].acqNs = (heardNs/day + 1) * day
		}
	}
	for i, row := range readCSV(t, realData(t, "daiad-water/swm_trialA.csv.gz"), ';')[1:] {
		if _, known := numbers[row[0]]; !known {
			numbers[row[0]] = int64(len(numbers) + 1)
		}
		if numbers[row[0]] > int64(meters) {
			continue
		}
		zone := madrid
		if strings.HasPrefix(row[1], "30/10/2016 02:") {
			zone = time.FixedZone("CEST", 2*3600) // the first of the two
		}
		at, err := time.ParseInLocation("02/01/2006 15:04:05", row[1], zone)
		if err != nil {
			t.Fatal(err)
		}
		litres, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		y, m, _ := at.In(madrid).Date()
		r := waterReading{meter: numbers[row[0]], capNs: at.UnixNano(), register: int64(litres),
			monthNs: time.Date(y, m, 1, 0, 0, 0, 0, madrid).UnixNano(), order: i}
		run := runs[r.meter]
		if len(run) > 0 && r.capNs-all[run[len(run)-1]].capNs > int64(waterGap) {
			arrive(run, r.capNs)
			run = nil
		}
		all = append(all, r)
		runs[r.meter] = append(run, len(all)-1)
	}
	for _, run := range runs {
		arrive(run, all[run[len(run)-1]].capNs+int64(waterGap))
	}
	slices.SortFunc(all, func(a, b waterReading) int {
		return cmp.Or(cmp.Compare(a.acqNs, b.acqNs), cmp.Compare(a.order, b.order))
	})
	return all, numbers
}

// litres is what delta says of a meter in a month.
type litres struct {
	consumption, fell           float64
	readings, resets, exchanges uint64
	from, to                    float64
}

type meterMonth struct{ meter, startNs int64 }

// countLitres adds up what was known before a moment, as one would by hand, from rows by meter, cap
// and arrival.
func countLitres(sorted []waterReading, asOfNs int64) map[meterMonth]litres {
	out := map[meterMonth]litres{}
	var last waterReading
	for i, r := range sorted {
		if r.acqNs >= asOfNs {
			continue
		}
		if next := i + 1; next < len(sorted) && sorted[next].meter == r.meter &&
			sorted[next].capNs == r.capNs && sorted[next].acqNs < asOfNs {
			continue // there is a later version
		}
		at := meterMonth{r.meter, r.monthNs}
		w := out[at]
		if last.meter != r.meter {
			last = r
		}
		if w.readings++; w.readings == 1 {
			w.from = float64(last.register)
		}
		w.to = float64(r.register)
		switch step := r.register - last.register; {
		case step > waterMaxStep:
			w.exchanges++
		case step >= 0:
			w.consumption += float64(step)
		case r.register <= waterMaxStep:
			w.consumption += float64(r.register)
			w.fell -= float64(step)
			w.resets++
		default:
			w.fell -= float64(step)
			w.exchanges++
		}
		out[at], last = w, r
	}
	return out
}

// askLitres asks the node by months, of the readings in caps.
func askLitres(t *testing.T, db *client.Client, caps record.RangeSet, q record.Query,
) map[meterMonth]litres {
	t.Helper()
	q.Box[record.CID] = record.RangeSet{record.At(1)}
	q.Box[record.Cap] = caps
	q.GroupBy = record.GroupBy{MID: true,
		Window: record.Window{Unit: record.WindowMonth, N: 1, Zone: "Europe/Madrid"}}
	groups, _, err := queryflags.AskGroups(t.Context(), db, &q, "delta", "type=i64,max_step="+
		strconv.Itoa(waterMaxStep))
	if err != nil {
		t.Fatal(err)
	}
	out := map[meterMonth]litres{}
	for _, g := range groups {
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(g.Result[8*i:]) }
		number := func(i int) float64 { return math.Float64frombits(word(i)) }
		if word(1) != g.Records || word(7) != 0 || word(10) != 0 {
			t.Errorf("meter %d: %d readings of %d records, %d roll-overs, %d invalid", g.MID,
				word(1), g.Records, word(7), word(10))
		}
		out[meterMonth{g.MID, g.CapNs}] = litres{consumption: number(0), fell: number(9),
			readings: word(1), resets: word(6), exchanges: word(8), from: number(3), to: number(5)}
	}
	return out
}

func sameLitres(t *testing.T, what string, got, want map[meterMonth]litres) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d months of meters, want %d", what, len(got), len(want))
	}
	wrong := 0
	for at, w := range want {
		if got[at] != w {
			if wrong++; wrong <= 3 {
				t.Errorf("%s: meter %d, month of %s: %+v, want %+v", what, at.meter,
					time.Unix(0, at.startNs).UTC(), got[at], w)
			}
		}
	}
	if wrong > 0 {
		t.Fatalf("%s: %d of %d differ", what, wrong, len(want))
	}
}

// replayedNode is a node whose clock stands still until it is set.
func replayedNode(t *testing.T, clock *atomic.Int64) (*node.Node, *client.Client) {
	t.Helper()
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Store: store.Options{Now: clock.Load}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	db, err := client.Dial(t.Context(), n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return n, db
}

// TestWaterMonths replays a year of water meters as their rows would have come, and bills each
// month as of its end. When all is there, the months are asked again: rows that came late have
// changed them. Both are what a loop over the rows says, with a meter that was exchanged and
// registers that fall.
func TestWaterMonths(t *testing.T) {
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	meters := 92
	if testing.Short() {
		meters = 12
	}
	all, numbers := readWater(t, madrid, meters)
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b waterReading) int {
		return cmp.Or(cmp.Compare(a.meter, b.meter), cmp.Compare(a.capNs, b.capNs))
	})
	var clock atomic.Int64
	clock.Store(all[0].acqNs - int64(time.Hour))
	n, db := replayedNode(t, &clock)

	start := func(month int) time.Time {
		return time.Date(2016, time.Month(3+month), 1, 0, 0, 0, 0, madrid)
	}
	askMonth := func(month int) map[meterMonth]litres {
		fromNs, toNs := start(month).UnixNano(), start(month+1).UnixNano()
		return askLitres(t, db, record.RangeSet{{From: fromNs, To: toNs}},
			record.Query{View: record.ViewAsOf, AsOfAcqNs: toNs})
	}
	var bills []map[meterMonth]litres
	next := 0
	for month := range 12 {
		toNs := start(month + 1).UnixNano()
		next = putWater(t, n, &clock, all, next, toNs)
		bills = append(bills, askMonth(month))
		want := countLitres(sorted, toNs)
		for at := range want {
			if at.startNs != start(month).UnixNano() {
				delete(want, at)
			}
		}
		sameLitres(t, "as of the end of "+start(month).Format("2006-01"), bills[month], want)
	}
	putWater(t, n, &clock, all, next, math.MaxInt64)
	corrected := askLitres(t, db, record.RangeSet{{From: start(0).UnixNano(),
		To: record.Cap.Max()}}, record.Query{View: record.ViewLatest})
	sameLitres(t, "latest", corrected, countLitres(sorted, math.MaxInt64))
	sameLitres(t, "what was billed, asked again", askMonth(2), bills[2])
	checkWaterQuirks(t, bills, corrected)
	exchanged := meterMonth{numbers["9348c9bb-e66e-4970-94c8-609ba5461ef2"],
		start(10).UnixNano()}
	if !testing.Short() && corrected[exchanged].exchanges == 0 {
		t.Errorf("the meter that was exchanged: %+v", corrected[exchanged])
	}
}

// checkWaterQuirks checks that late rows changed something, and registers fell.
func checkWaterQuirks(t *testing.T, bills []map[meterMonth]litres,
	corrected map[meterMonth]litres) {
	t.Helper()
	changed, exchanges, fell := 0, uint64(0), 0.0
	for _, bill := range bills {
		for at, w := range bill {
			if corrected[at].consumption != w.consumption {
				changed++
			}
		}
	}
	for _, w := range corrected {
		exchanges, fell = exchanges+w.exchanges, fell+w.fell
	}
	t.Logf("%d of %d months have another consumption than was billed; %d steps did not count, "+
		"registers fell by %g l", changed, len(corrected), exchanges, fell)
	if changed == 0 || fell == 0 {
		t.Error("no row came late, or no register fell")
	}
	if !testing.Short() && exchanges != 236 { // falls, and rises beyond what is plausible
		t.Errorf("%d steps do not count, want 236", exchanges)
	}
}

// putWater stores what comes before a moment, with the clock of the node at each arrival and then
// at the moment, and returns which row is next.
func putWater(t *testing.T, n *node.Node, clock *atomic.Int64, all []waterReading, next int,
	untilNs int64) int {
	t.Helper()
	var b record.Batch
	for next < len(all) && all[next].acqNs < untilNs {
		clock.Store(all[next].acqNs)
		for arrival := all[next].acqNs; next < len(all) && all[next].acqNs == arrival &&
			b.Len() < record.MaxBatchRecords; next++ {
			r := all[next]
			b.Append(record.Key{CID: 1, MID: r.meter, MOID: 1, CapNs: r.capNs},
				binary.LittleEndian.AppendUint64(nil, uint64(r.register)))
		}
		if _, err := n.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	}
	if untilNs < math.MaxInt64 {
		clock.Store(untilNs)
	}
	return next
}
