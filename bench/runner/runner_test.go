package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/bench/journal"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload/corrections"
	"github.com/pentad-db/pentad/sdk/record"
)

// memory is a system that keeps its rows for all who open the same folder, and does what its hooks
// say.
type memory struct {
	name   string
	stores map[string]*[]record.Record
	opened int
	put    func() error
	change func(b *record.Batch) // what an answer gets wrong
	ask    func() error
	asks   int
}

func newMemory(name string) *memory {
	return &memory{name: name, stores: map[string]*[]record.Record{}}
}

func (m *memory) kind() system.Kind {
	return system.Kind{Name: m.name,
		Open: func(_ context.Context, dir string, _ system.Shape) (system.System, error) {
			m.opened++
			mark := filepath.Join(dir, "mark")
			if _, err := os.Stat(mark); err != nil { // a new folder is a new store
				m.stores[dir] = new([]record.Record)
				if err := os.WriteFile(mark, []byte("x"), 0o644); err != nil {
					return nil, err
				}
			}
			return &opened{m, m.stores[dir]}, nil
		}}
}

type opened struct {
	m    *memory
	rows *[]record.Record
}

func (o *opened) Put(_ context.Context, b *record.Batch) error {
	if o.m.put != nil {
		if err := o.m.put(); err != nil {
			return err
		}
	}
	for i := range b.Len() {
		r := b.Record(i)
		r.Payload = append([]byte(nil), r.Payload...)
		*o.rows = append(*o.rows, r)
	}
	return nil
}

func (o *opened) Settle(context.Context) error { return nil }
func (o *opened) Close() error                 { return nil }

func (o *opened) Ask(
	_ context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	o.m.asks++
	if o.m.ask != nil {
		if err := o.m.ask(); err != nil {
			return 0, err
		}
	}
	newest := map[record.Key]record.Record{}
	for _, r := range *o.rows {
		if !q.Box.Contains(r.Key) || q.View == record.ViewAsOf && r.AcqNs >= q.AsOfAcqNs {
			continue
		}
		key := r.Key
		if q.View != record.ViewAll {
			key.AcqNs = 0
		}
		if had, ok := newest[key]; !ok || had.AcqNs < r.AcqNs {
			newest[key] = r
		}
	}
	r := system.NewReducer(q, take)
	var b record.Batch
	for _, x := range newest {
		b.AppendStamped(x.Key, x.Payload)
	}
	if o.m.change != nil {
		o.m.change(&b)
	}
	r.Add(&b)
	return r.Finish(), nil
}

// runAll runs the corrections workload, which has two phases and all views.
func runAll(t *testing.T, dir string, systems ...*memory) ([]report.Result, string, error) {
	t.Helper()
	return runWithin(t, time.Millisecond, dir, systems...)
}

func runWithin(t *testing.T, budget time.Duration, dir string, systems ...*memory) (
	[]report.Result, string, error) {
	t.Helper()
	j, err := journal.Open(filepath.Join(dir, "journal.json"), "key")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := Runner{Out: &out, Dir: filepath.Join(dir, "data"), Journal: j,
		Workload: corrections.Config{Meters: 12, Seed: 1}.Workload(), Budget: budget}
	for _, m := range systems {
		r.Kinds = append(r.Kinds, m.kind())
	}
	results, err := r.Run(t.Context())
	return results, out.String(), err
}

func TestRunAnswers(t *testing.T) {
	results, out, err := runAll(t, t.TempDir(), newMemory("a"), newMemory("b"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(results) != 2 || len(results[0].Queries) != 6 || len(results[1].Queries) != 7 {
		t.Fatalf("results %+v", results)
	}
	for _, r := range results {
		if r.Records == 0 || r.Series != 12 || len(r.Systems) != 2 {
			t.Errorf("%s: %d records, %d series, %d systems", r.Phase, r.Records, r.Series,
				len(r.Systems))
		}
		for _, q := range r.Queries {
			for s, x := range q.Times {
				if x.Runs == 0 || x.MinUs > x.MedianUs || x.MedianUs > x.MaxUs ||
					(x.Ratio.Median > 0) != (s > 0) || x.Ratio.Min > x.Ratio.Max {
					t.Errorf("%s, %s, system %d: %+v", r.Phase, q.Name, s, x)
				}
			}
		}
	}
}

// TestRunTimesNoChecks spends the budget with the first check: what is timed is still another run.
func TestRunTimesNoChecks(t *testing.T) {
	a, b := newMemory("a"), newMemory("b")
	results, _, err := runWithin(t, time.Nanosecond, t.TempDir(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, r := range results {
		for _, q := range r.Queries {
			queries++
			for s, x := range q.Times {
				if x.Runs != 2*minBoxes || (x.Ratio.Median > 0) != (s > 0) {
					t.Errorf("%s, %s, system %d: %+v", r.Phase, q.Name, s, x)
				}
			}
		}
	}
	// A check, and twice a run to warm, where that is fast, and a timed run of each box.
	boxes := queries * minBoxes
	for _, m := range []*memory{a, b} {
		if m.asks < 3*boxes || m.asks > 5*boxes {
			t.Errorf("%s is asked %d times for %d boxes", m.name, m.asks, boxes)
		}
	}
}

// TestOrder looks for systems that always come after the same one.
func TestOrder(t *testing.T) {
	const systems = 5
	after := map[[2]int]int{}
	for box := range 11 {
		for round := range 4 {
			o := order(systems, box, round)
			if sorted := slices.Sorted(slices.Values(o)); !slices.Equal(sorted,
				[]int{0, 1, 2, 3, 4}) {
				t.Fatalf("%v", o)
			}
			for i, s := range o[1:] {
				after[[2]int{o[i], s}]++
			}
		}
	}
	for pair, times := range after {
		if times > 20 {
			t.Errorf("%d comes after %d in %d of 44 rounds", pair[1], pair[0], times)
		}
	}
	if len(after) != systems*(systems-1) {
		t.Errorf("%d pairs only", len(after))
	}
}

func TestMedian(t *testing.T) {
	f := func(want float64, values ...float64) {
		t.Helper()
		if got := median(values); got != want {
			t.Errorf("median of %v is %v, want %v", values, got, want)
		}
	}
	f(3, 3)
	f(2, 3, 1)
	f(3, 9, 3, 1)
	f(4, 9, 3, 1, 5)
}

// TestRunNamesWrongAnswers changes one answer at a time; each is found and laid at the right door.
func TestRunNamesWrongAnswers(t *testing.T) {
	for name, change := range map[string]func(b *record.Batch){
		"a row less": func(b *record.Batch) {
			if n := b.Len(); n > 0 {
				b.CID, b.MID, b.MOID = b.CID[:n-1], b.MID[:n-1], b.MOID[:n-1]
				b.CapNs, b.AcqNs = b.CapNs[:n-1], b.AcqNs[:n-1]
			}
		},
		"another value": func(b *record.Batch) {
			if len(b.Data) > 0 {
				b.Data[0] ^= 1
			}
		},
		"another stamp": func(b *record.Batch) {
			if b.Len() > 0 {
				b.AcqNs[0] -= int64(time.Hour)
			}
		},
	} {
		bad := newMemory("bad")
		bad.change = change
		_, _, err := runAll(t, t.TempDir(), newMemory("good"), bad)
		if err == nil || !strings.Contains(err.Error(), "WRONG ANSWER of bad to month latest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunGoesOnWithoutWhatIsMissing(t *testing.T) {
	missing, odd := newMemory("missing"), newMemory("odd")
	missing.put = func() error { return system.MissingError("install it") }
	odd.ask = func() error {
		if odd.asks%4 == 0 { // the box of some other question may be answered
			return system.UnsupportedError("cannot say that")
		}
		return nil
	}
	results, out, err := runAll(t, t.TempDir(), newMemory("a"), missing, odd)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, r := range results {
		if len(r.Systems) != 2 || len(r.LeftOut) != 1 || r.LeftOut[0] != "missing: install it" {
			t.Errorf("systems %+v, left out %v", r.Systems, r.LeftOut)
		}
		for _, q := range r.Queries {
			if x := q.Times[1]; x.Unsupported != "cannot say that" || x.Runs != 0 {
				t.Errorf("%s: %+v", q.Name, x)
			}
		}
	}
	if !strings.Contains(out, "left out: install it") {
		t.Errorf("nothing is said:\n%s", out)
	}
}

// TestRunGoesOnWithoutWhatWasMissing installs a system while a run is interrupted: the queries that
// were asked have no times of it, so it stays out.
func TestRunGoesOnWithoutWhatWasMissing(t *testing.T) {
	dir := t.TempDir()
	a, missing, stops := newMemory("a"), newMemory("missing"), newMemory("stops")
	missing.put = func() error { return system.MissingError("install it") }
	errStop := errors.New("stop")
	stops.ask = func() error {
		if stops.asks > 20 {
			return errStop
		}
		return nil
	}
	if _, out, err := runAll(t, dir, a, missing, stops); !errors.Is(err, errStop) {
		t.Fatalf("%v\n%s", err, out)
	}
	missing.put, stops.ask = nil, nil
	results, out, err := runAll(t, dir, a, missing, stops)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, r := range results {
		for _, q := range r.Queries {
			if len(r.Systems) != 2 || len(q.Times) != 2 || len(r.LeftOut) != 1 {
				t.Errorf("%s, %s: %d systems, %d times, left out %v", r.Phase, q.Name,
					len(r.Systems), len(q.Times), r.LeftOut)
			}
		}
	}
}

// TestRunGoesOn interrupts a run in every put of one system, and once in a query; what was measured
// before stays as it was.
func TestRunGoesOn(t *testing.T) {
	errStop := errors.New("stop")
	dir := t.TempDir()
	a, b := newMemory("a"), newMemory("b")
	puts, stopAt := 0, 1
	b.put = func() error {
		if puts++; puts == stopAt {
			return errStop
		}
		return nil
	}
	interrupted := 0
	for ; ; stopAt++ {
		puts = 0
		results, out, err := runAll(t, dir, a, b)
		if err == nil {
			checkTwice(t, dir, results, a, b)
			break
		}
		if !errors.Is(err, errStop) {
			t.Fatalf("after %d interruptions: %v\n%s", interrupted, err, out)
		}
		interrupted++
	}
	if interrupted < 4 {
		t.Errorf("interrupted %d times only", interrupted)
	}
	rows := func(m *memory) int { return len(*m.stores[filepath.Join(dir, "data", m.name)]) }
	if rows(a) != rows(b) || rows(a) < 12*60*48 {
		t.Errorf("a has %d rows, b %d", rows(a), rows(b))
	}
}

// checkTwice runs once more: nothing is opened, and the figures are the same.
func checkTwice(t *testing.T, dir string, results []report.Result, a, b *memory) {
	t.Helper()
	before := a.opened + b.opened
	again, _, err := runAll(t, dir, a, b)
	if err != nil || a.opened+b.opened != before {
		t.Errorf("a run that was done opened %d stores: %v", a.opened+b.opened-before, err)
	}
	for i, r := range results {
		for j, q := range r.Queries {
			if again[i].Queries[j].Times[1].MedianUs != q.Times[1].MedianUs {
				t.Errorf("%s was measured again", q.Name)
			}
		}
	}
}
