package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
	"github.com/pentad-db/pentad/sdk/wire"
)

// whereAnswers holds the answers to a condition against how many rows meet it: of a count, the rows
// without and with their payloads, an aggregate twice, so that states are cached, and an
// explanation.
func whereAnswers(t *testing.T, c *client.Client, q record.Query, want uint64) {
	t.Helper()
	n, end, err := c.Count(t.Context(), &q)
	if err != nil || n != want || !end.Complete {
		t.Fatalf("%s: count %d, %v; want %d", q.Where, n, err, want)
	}
	for _, keysOnly := range []bool{false, true} {
		rows, some := uint64(0), q
		some.KeysOnly = keysOnly
		for _, err := range c.Query(t.Context(), &some) {
			if err != nil {
				t.Fatalf("%s: %v", q.Where, err)
			}
			rows++
		}
		if rows != want {
			t.Fatalf("%s: %d rows; want %d", q.Where, rows, want)
		}
	}
	for range 2 {
		sums := q
		sums.Aggregate.Name = "count"
		groups, _, err := c.Aggregate(t.Context(), &sums)
		if err != nil || want > 0 && (len(groups) != 1 || groups[0].Records != want) {
			t.Fatalf("%s: groups %+v, %v; want %d", q.Where, groups, err, want)
		}
	}
	x, err := c.Explain(t.Context(), &q)
	if err != nil || x.Found != want {
		t.Fatalf("%s: explained %d, %v; want %d", q.Where, x.Found, err, want)
	}
}

// whereChanges counts the records of a feed that meet a condition.
func whereChanges(t *testing.T, c *client.Client, q record.Query) (rows int) {
	t.Helper()
	q.View = record.ViewAll
	for b, err := range c.PastChanges(t.Context(), &q, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Rows != nil {
			rows += b.Rows.Len()
		}
	}
	return rows
}

// putWhere puts 6000 readings of quantity 1, of which value is i, and of quantity 2 with the fields
// value, i as well, and quality, i % 4.
func putWhere(t *testing.T, c *client.Client) {
	t.Helper()
	fields := []client.QuantityField{{Name: "value", Type: "f64"},
		{Name: "quality", Type: "i64", Offset: 8}}
	for _, q := range []client.Quantity{{MOID: 1, Name: "energy", Type: "f64"},
		{MOID: 2, Name: "state", Type: plugin.Struct, Fields: fields}} {
		if err := c.SetQuantity(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	w := c.NewWriter(client.WriterOptions{})
	for i := range int64(6000) {
		one := f64(float64(i))
		if err := w.Add(t.Context(), record.Key{MID: i % 900 * 256, MOID: 1, CapNs: i},
			one); err != nil {
			t.Fatal(err)
		}
		one = append(one, byte(i%4), 0, 0, 0, 0, 0, 0, 0)
		if err := w.Add(t.Context(), record.Key{MID: i % 900 * 256, MOID: 2, CapNs: i},
			one); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func checkWhereOf(t *testing.T, c *client.Client) {
	t.Helper()
	one := record.Box{record.MOID: {record.At(1)}}
	two := record.Box{record.MOID: {record.At(2)}}
	both := record.Box{record.MOID: {{From: 1, To: 3}}}
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		whereAnswers(t, c, record.Query{View: view, Box: one, Where: "value < 100"}, 100)
		whereAnswers(t, c, record.Query{View: view, Box: two,
			Where: "value < 1000 and (quality == 0 or not quality <= 2)"}, 500)
		whereAnswers(t, c, record.Query{View: view, Box: both, Where: "value in (5, 7)"}, 4)
		whereAnswers(t, c, record.Query{View: view, Box: one, Where: "value < -1e300"}, 0)
	}
	last := record.Query{View: record.ViewLatest, Last: 1, Box: one, Where: "value >= 5990"}
	if n, _, err := c.Count(t.Context(), &last); err != nil || n != 10 {
		t.Errorf("of the last readings: %d, %v", n, err)
	}
	if n := whereChanges(t, c, record.Query{Box: both, Where: "value < 50"}); n != 100 {
		t.Errorf("of changes: %d", n)
	}
	_, _, err := c.Count(t.Context(), &record.Query{Box: both, Where: "quality = 0"})
	isKind(t, err, wire.KindInvalid,
		`where: inconsistent: character 1 ("quality = 0"): quantity 1 (energy) has no field `+
			`quality`)
	_, _, err = c.Count(t.Context(), &record.Query{Box: one, Where: "value <"})
	if err == nil {
		t.Error("a condition without an end was answered")
	}
	_, _, err = c.Count(t.Context(), &record.Query{Where: "value < 5",
		Box: record.Box{record.MOID: {record.At(9)}}})
	isKind(t, err, wire.KindInvalid, "quantity 9 is not declared")
	typed, err := where.Typed("value < 5", "f64")
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := c.Count(t.Context(), &record.Query{Box: one, Where: typed}); n != 5 {
		t.Errorf("with a type: %d, %v", n, err)
	}
}

// TestWhere: conditions on payloads mean the same in every kind of query, in heads and blocks.
func TestWhere(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	putWhere(t, c)
	checkWhereOf(t, c)
	if err := n.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkWhereOf(t, c)
	x, err := c.Explain(t.Context(), &record.Query{Box: record.Box{record.MOID: {record.At(1)}},
		Where: "value > 1e9"})
	if err != nil || x.SkippedByWhere == 0 || x.SkippedByWhere != x.Opened {
		t.Errorf("%d of %d blocks were skipped, %v", x.SkippedByWhere, x.Opened, err)
	}
}

// TestWhereInACluster: each node answers for the groups of all.
func TestWhereInACluster(t *testing.T) {
	c := openTogether(t, 3, 4)
	first := dial(t, c.nodes[0])
	c.until("the readings are stored", func() bool {
		_, _, err := first.Count(t.Context(), &record.Query{})
		return err == nil
	})
	putWhere(t, first)
	for _, n := range c.nodes {
		c.until("a node has all and knows the quantities", func() bool {
			all, err := dial(t, n).Quantities(t.Context())
			count, _, failed := dial(t, n).Count(t.Context(), &record.Query{})
			return err == nil && failed == nil && len(all) == 2 && count == 12000 &&
				whereChanges(t, dial(t, n), record.Query{}) == 12000 // the horizon is past all
		})
		checkWhereOf(t, dial(t, n))
	}
}

// BenchmarkWhere measures conditions and the filter threshold in turns: of decimals as f64 and as
// f32, and of numbers with all digits, of which half, few and none meet the condition. It prints
// the median of the ratios of both, turn by turn: above 1 conditions are faster.
func BenchmarkWhere(b *testing.B) {
	n, err := Open(b.Context(), Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = n.Close(b.Context()) }()
	rng := rand.New(rand.NewPCG(1, 1))
	for batch := range 32 {
		var rows record.Batch
		for i := range int64(record.MaxBatchRecords) / 3 {
			k := record.Key{CID: 1, MID: rng.Int64N(1000), MOID: 1,
				CapNs: int64(batch)*int64(time.Hour) + i*1000}
			value := math.Round(200+100*rng.NormFloat64()) / 10
			rows.Append(k, f64(value))
			k.MOID = 2
			rows.Append(k, binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(value))))
			k.MOID = 3
			rows.Append(k, f64(20+10*rng.NormFloat64()))
		}
		if _, err := n.Put(b.Context(), &rows, store.WriterSeq{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := n.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	for i, name := range []string{"decimals", "f32", "f64"} {
		kind := map[bool]string{true: "f32", false: "f64"}[name == "f32"]
		box := record.Box{record.MOID: {record.At(int64(i + 1))}}
		for _, limit := range []float64{20, 45, 500} {
			text, err := where.Typed(fmt.Sprintf("value > %v", limit), kind)
			if err != nil {
				b.Fatal(err)
			}
			q := &record.Query{Box: box, Where: text}
			filtered := &record.Query{Box: box, Filters: thresholds(b, n,
				fmt.Sprintf("value=%v,type=%s", limit, kind))}
			benchmarkWhere(b, n, fmt.Sprintf("%s above %v", name, limit), q, filtered)
		}
	}
}

func benchmarkWhere(b *testing.B, n *Node, name string, q, filtered *record.Query) {
	count := func(q *record.Query) uint64 {
		count, _, err := n.Count(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		return count
	}
	rows := func(q *record.Query) uint64 {
		end, err := n.Query(b.Context(), q, func(*record.Batch) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		return end.Rows
	}
	for kind, run := range map[string]func(q *record.Query) uint64{"count": count, "rows": rows} {
		b.Run(kind+" of "+name, func(b *testing.B) {
			var mine, others []time.Duration
			for b.Loop() {
				start := time.Now()
				found := run(q)
				middle := time.Now()
				if other := run(filtered); other != found {
					b.Fatalf("%d rows, and threshold finds %d", found, other)
				}
				mine = append(mine, middle.Sub(start))
				others = append(others, time.Since(middle))
			}
			ratios := make([]float64, len(mine))
			for i := range mine {
				ratios[i] = float64(others[i]) / float64(mine[i])
			}
			median := func(times []time.Duration) float64 {
				slices.Sort(times)
				return float64(times[len(times)/2]) / 1e6
			}
			slices.Sort(ratios)
			b.ReportMetric(median(mine), "ms/where")
			b.ReportMetric(median(others), "ms/threshold")
			b.ReportMetric(ratios[len(ratios)/2], "x")
		})
	}
}
