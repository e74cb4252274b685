package tstorage

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
)

// TestLongPutAAtOneAcq stores batches whose records all have one acq, which are larger than the
// memory for them, reads them back, and sends them again: what is there is recognised.
func TestLongPutAAtOneAcq(t *testing.T) {
	rounds.NotUnderRace(t, "its work is that of other batches, with more records")
	n := openNode(t, node.Options{})
	const buffer = 4 << 20
	s := serve(t, Options{Database: n, PutA: PutAAny, BufferBytes: buffer})
	c := ttDial(t, s)
	few := &long{cid: 1, records: 20, payload: 500_000, withAcq: true, acq: 55555}
	many := &long{cid: 2, records: 70_000, payload: 8, withAcq: true, acq: 55555}
	for range 2 {
		for _, l := range []*long{few, many} {
			l.send(t, c)
		}
	}
	few.check(t, c, 1)
	many.check(t, c, 1)
	rows := int64(few.records + many.records)
	if st := s.Stats(); st.Below != rows || st.RecordsIn != rows || st.Duplicates != rows {
		t.Errorf("%d records of %d stored, %d duplicates", st.RecordsIn, rows, st.Duplicates)
	}
	if most := s.budget.Most(); most > 2*buffer {
		t.Errorf("%d bytes of the budget were taken, and it has %d", most, buffer)
	}
}

// TestLongPutAOfManyAcqs stores a request of several tenants whose acqs lie among each other, some
// of them twice, in pieces.
func TestLongPutAOfManyAcqs(t *testing.T) {
	n := openNode(t, node.Options{})
	s := serve(t, Options{Database: n, PutA: PutAAny, WholeBytes: 100 << 10})
	c := ttDial(t, s)
	var all []ttRecord
	for cid := range int32(3) {
		for i := range int64(2000) {
			all = append(all, stampedAt(cid, i, 1000+i/2*3, strings.Repeat("x", 100)))
		}
	}
	for range 2 {
		least, most, st, err := c.put(true, all...)
		if err != nil || st != 0 || least != 1000 || most != 1000+999*3 {
			t.Fatalf("acq %d to %d, status %d, %v", least, most, st, err)
		}
		exactly(t, mustGet(t, c), all)
	}
}

// TestLongPutAInOrder stores a request of several tenants whose acqs lie among each other in a
// node that takes them in their order alone: what memory has no space for waits in files. Sent
// again, with more behind it, what is there is recognised.
func TestLongPutAInOrder(t *testing.T) {
	n := openNode(t, node.Options{ResultBytes: 4 << 20})
	s := serve(t, Options{Database: n, PutA: PutAAbove, BufferBytes: 1 << 20})
	c := ttDial(t, s)
	const tenants, each = 3, 7000
	var all []ttRecord
	for cid := range int32(tenants) {
		for i := range int64(each) {
			all = append(all, stampedAt(cid, i, 700_000_000_000_000_000+i*tenants+int64(cid),
				strings.Repeat("x", 400)))
		}
	}
	mustPutA(t, c, all...)
	more := stampedAt(1, 1, all[len(all)-1].acq+1, "one more")
	mustPutA(t, c, append(all, more)...)
	exactly(t, mustGet(t, c), append(all, more))
	if st := s.Stats(); st.RecordsIn != tenants*each+1 || st.Duplicates != tenants*each ||
		st.Below != 0 {
		t.Errorf("%d records stored, %d duplicates, %d below", st.RecordsIn, st.Duplicates,
			st.Below)
	}
	if most := s.budget.Most(); most > 2<<20 {
		t.Errorf("%d bytes of the budget were taken", most)
	}
	wrong := append(slices.Clone(all), stampedAt(9, 1, 1_300_000_000_000_000_000, "the future"))
	if _, _, st, err := c.put(true, wrong...); err != nil || st != stInvalid {
		t.Errorf("status %d, want %d, %v", st, stInvalid, err)
	}
}

// TestLongPutAFails brings another payload for what is there late in a request: the answer says so,
// the log says how much is stored, and the request without it completes what is missing.
func TestLongPutAFails(t *testing.T) {
	n := openNode(t, node.Options{})
	var text syncBuffer
	s := serve(t, Options{Database: n, PutA: PutAAny, WholeBytes: 100 << 10,
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	c := ttDial(t, s)
	var all []ttRecord
	for i := range int64(3000) {
		all = append(all, stampedAt(1, i, 55555, strings.Repeat("x", 100)))
	}
	wrong := all[2500]
	wrong.payload = "another"
	mustPutA(t, c, wrong)
	if _, _, st, err := c.put(true, all...); err != nil || st != stInvalid {
		t.Fatalf("status %d, %v", st, err)
	}
	got := mustGet(t, c)
	if len(got) < 500 || len(got) > 2501 {
		t.Errorf("%d records are stored", len(got))
	}
	if want := fmt.Sprintf("%d records of the PUTA are stored", len(got)-1); !strings.Contains(
		text.String(), want) {
		t.Errorf("the log does not say that %s: %s", want, text.String())
	}
	all[2500] = wrong
	mustPutA(t, c, all...)
	exactly(t, mustGet(t, c), all)
}

// TestTimesInLogs: each time in a log line is written in one form, of one epoch; the numbers that a
// client knows stand beside it, and say what they count from.
func TestTimesInLogs(t *testing.T) {
	n := openNode(t, node.Options{})
	var text syncBuffer
	opt := Options{Database: n, PutA: PutAAbove,
		Logger: slog.New(slog.NewTextHandler(&text, nil))}
	above := serve(t, opt)
	opt.PutA = PutAAny
	c, any := ttDial(t, above), ttDial(t, serve(t, opt))
	const recent = int64(800_000_000_000_000_000)
	mustPut(t, c, at(1, recent, "now"))
	reserved := at(1, recent, "x")
	reserved.mid = ttMax().mid
	mustPut(t, c, reserved)
	mustPutA(t, any, stampedAt(1, recent, recent+1, "below"))
	for _, records := range [][]ttRecord{
		{stampedAt(1, recent, recent, "a")},
		{stampedAt(1, recent, recent+1, "other")},
		{stampedAt(1, recent, recent+5, "a"), stampedAt(2, recent, recent+5, "b")},
		{stampedAt(1, recent, recent+5, "a"), stampedAt(1, recent, recent+5, "b")},
		{stampedAt(1, 1, 1_300_000_000_000_000_000, "a")},
		{stampedAt(1, 1, ttMax().acq-1, "a")},
	} {
		for _, client := range []*ttClient{c, any} {
			if _, _, _, err := client.put(true, records...); err != nil {
				t.Fatal(err)
			}
		}
	}
	from, to := ttMin(), ttMax()
	from.acq, to.acq = recent+1, recent
	if _, _, st, err := c.get(from, to); err != nil || st != stInvalid {
		t.Errorf("status %d, %v", st, err)
	}
	to.acq, from.acq = ttMax().acq, ttMax().acq-1
	if _, _, st, err := c.get(from, to); err != nil || st != stInvalid {
		t.Errorf("status %d, %v", st, err)
	}
	if _, st, err := c.getAcq(from, to); err != nil || st != stInvalid {
		t.Errorf("status %d, %v", st, err)
	}
	numbers := regexp.MustCompile(`\(-?\d+ ns since 2001\)|mid=\d+`)
	bare := regexp.MustCompile(`\d{12,}`)
	clock := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z`)
	lines := 0
	for line := range strings.Lines(text.String()) {
		_, line, _ = strings.Cut(line, " ") // without the time of the line
		lines++
		if left := numbers.ReplaceAllString(line, ""); bare.MatchString(left) {
			t.Errorf("a number in place of a time: %s", line)
		}
		if !clock.MatchString(line) {
			t.Errorf("no time: %s", line)
		}
	}
	if lines < 10 {
		t.Errorf("%d lines:\n%s", lines, text.String())
	}
}
