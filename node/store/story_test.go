package store_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/story"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

var update = flag.Bool("update", false, "write what the stories in testdata come to")

// TestStories runs testdata/*.story. Records are written as TENANT/DEVICE/QUANTITY TIME = PAYLOAD,
// times as those of one day, and an acq n nanoseconds after a second as TIME+n.
func TestStories(t *testing.T) {
	story.Run(t, "testdata", *update, func(t *testing.T) func(*story.Step) string {
		told := &told{t: t, dir: t.TempDir()}
		told.now.Store(moment("09:00:00"))
		told.open()
		t.Cleanup(func() {
			if err := told.store.Close(); err != nil {
				t.Error(err)
			}
		})
		return told.do
	})
}

// told is a store that a story is about, with a clock that the story sets.
type told struct {
	t     *testing.T
	dir   string
	now   atomic.Int64
	store *store.Store
}

func (o *told) open() (report store.Report) {
	var err error
	o.store, report, err = store.Open(o.t.Context(), store.Options{Dir: o.dir,
		Now: o.now.Load})
	if err != nil {
		o.t.Fatal(err)
	}
	return report
}

// do does one step and says what came of it.
func (o *told) do(s *story.Step) string {
	verbs := map[string]func(*story.Step) (string, error){"clock": o.clock, "put": o.put,
		"show": o.show, "versions": o.versions, "diff": o.diff, "seal": o.seal, "settle": o.settle,
		"erase": o.erase, "purge": o.purge, "events": o.events, "reopen": o.reopen,
		"where": func(*story.Step) (string, error) { return o.where(), nil }}
	verb := verbs[s.Verb]
	if verb == nil {
		o.t.Fatalf("%s is not a verb of stories about a store", s.Verb)
	}
	text, err := verb(s)
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

const day = "2026-01-01 "

// moment reads a time of the day.
func moment(text string) int64 {
	at, err := time.Parse(time.DateTime, day+text)
	if err != nil {
		panic(err)
	}
	return at.UnixNano()
}

func clockOf(ns int64) string {
	text := time.Unix(0, ns).UTC().Format(time.TimeOnly)
	if rest := ns % int64(time.Second); rest != 0 {
		text += fmt.Sprint("+", rest)
	}
	return text
}

func keyOf(k record.Key) string {
	return fmt.Sprintf("%d/%d/%d %s", k.CID, k.MID, k.MOID, clockOf(k.CapNs))
}

func recordOf(r record.Record) string {
	payload := string(r.Payload)
	if r.Tomb {
		payload = "deleted"
	}
	return fmt.Sprintf("%s = %-8s acq %s", keyOf(r.Key), payload, clockOf(r.AcqNs))
}

// boxOf reads PART=VALUE and PART=FROM..TO, of which the end is not in the range.
func boxOf(words []string) (box record.Box) {
	parts := map[string]record.Dim{"tenant": record.CID, "device": record.MID,
		"quantity": record.MOID, "cap": record.Cap, "acq": record.Acq}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		dim, ok := parts[name]
		if !ok {
			panic(word + " is not a part of a key")
		}
		number := func(text string) int64 {
			if dim == record.Cap || dim == record.Acq {
				return moment(text)
			}
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				panic(err)
			}
			return n
		}
		from, to, isRange := strings.Cut(value, "..")
		r := record.At(number(from))
		if isRange {
			r.To = number(to)
		}
		box[dim] = append(box[dim], r)
	}
	return box
}

// boxText writes what boxOf reads.
func boxText(box *record.Box) (out string) {
	for i, name := range []string{"tenant", "device", "quantity", "cap", "acq"} {
		for _, r := range box[i] {
			text := func(n int64) string { return strconv.FormatInt(n, 10) }
			if dim := record.Dim(i); dim == record.Cap || dim == record.Acq {
				text = clockOf
			}
			out += fmt.Sprintf(" %s=%s..%s", name, text(r.From), text(r.To))
		}
	}
	return out
}

func (o *told) clock(s *story.Step) (string, error) {
	o.now.Store(moment(s.Args[0]))
	return "", nil
}

// put stores the records of its lines; "put as WRITER NUMBER" names the writer and its sequence.
func (o *told) put(s *story.Step) (string, error) {
	b := &record.Batch{}
	for _, line := range s.Input {
		var k record.Key
		var at, payload string
		if _, err := fmt.Sscanf(line, "%d/%d/%d %s = %s", &k.CID, &k.MID, &k.MOID, &at,
			&payload); err != nil {
			return "", err
		}
		k.CapNs = moment(at)
		if payload == "deleted" {
			b.AppendTomb(k)
		} else {
			b.Append(k, []byte(payload))
		}
	}
	var w store.WriterSeq
	if len(s.Args) == 3 {
		copy(w.ID[:], s.Args[1])
		seq, err := strconv.ParseUint(s.Args[2], 10, 64)
		if err != nil {
			return "", err
		}
		w.Seq = seq
	}
	res, err := o.store.Put(o.t.Context(), b, w)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d stored, acq %s", res.Records, clockOf(res.FirstAcqNs))
	if res.LastAcqNs > res.FirstAcqNs {
		text += " to " + clockOf(res.LastAcqNs)
	}
	if res.Duplicate {
		text += ": the answer of the first time"
	}
	return text, nil
}

// show shows all, the latest, or "as-of TIME" the records of a box, ordered by key and acq.
func (o *told) show(s *story.Step) (string, error) {
	q, rest := record.Query{}, s.Args[1:]
	switch s.Args[0] {
	case "latest":
		q.View = record.ViewLatest
	case "as-of":
		q.View, q.AsOfAcqNs, rest = record.ViewAsOf, moment(rest[0]), rest[1:]
	}
	q.Box = boxOf(rest)
	if err := q.Normalize(); err != nil {
		return "", err
	}
	var out []string
	_, err := o.store.Scan(o.t.Context(), &q, func(int) (store.Sink, error) {
		return func(b *record.Batch) error {
			for i := range b.Len() {
				out = append(out, recordOf(b.Record(i)))
			}
			return nil
		}, nil
	})
	return sorted(out), err
}

func sorted(lines []string) string {
	slices.Sort(lines)
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

// versions shows every version of the readings in a box, and what became of it.
func (o *told) versions(s *story.Step) (string, error) {
	box := boxOf(s.Args)
	all, _, err := o.store.Versions(o.t.Context(), &box, 1<<20)
	out := ""
	for _, v := range all {
		out += recordOf(v.Record)
		switch {
		case v.HiddenAcqNs != 0:
			out += "  erased at " + clockOf(v.HiddenAcqNs)
		case v.Latest:
			out += "  latest"
		}
		out += "\n"
	}
	return out, err
}

// diff shows what became of readings between two acqs.
func (o *told) diff(s *story.Step) (string, error) {
	var out []string
	ask := &record.Diff{FromNs: moment(s.Args[0]), ToNs: moment(s.Args[1]), Box: boxOf(s.Args[2:])}
	_, err := o.store.Diff(o.t.Context(), ask, func(d *record.Differences) error {
		for i := range d.Len() {
			x := d.At(i)
			was, is := string(x.Old.Payload), string(x.New.Payload)
			text := map[record.DiffKind]string{record.DiffAdded: "added " + is,
				record.DiffChanged: was + " became " + is,
				record.DiffDeleted: was + " was deleted"}[d.Kind]
			out = append(out, fmt.Sprintf("%s: %s, acq %s", keyOf(x.New.Key), text,
				clockOf(x.New.AcqNs)))
		}
		return nil
	})
	return sorted(out), err
}

// where says how many records are in the head, and how many in segments. While four segments or
// more are not settled their number is open.
func (o *told) where() string {
	st := o.store.Stats()
	return fmt.Sprintf("%d records in the head, %d in %d segments", st.HeadRows,
		st.Rows-st.HeadRows, st.Segments)
}

func (o *told) seal(*story.Step) (string, error) {
	return "", o.store.Seal(o.t.Context())
}

func (o *told) settle(*story.Step) (string, error) {
	err := o.store.WaitForMerges(o.t.Context())
	return o.where(), err
}

func (o *told) erase(s *story.Step) (string, error) {
	ns, err := o.store.Erase(o.t.Context(), boxOf(s.Args))
	return "erased, acq " + clockOf(ns), err
}

func (o *told) purge(s *story.Step) (string, error) {
	ns, err := o.store.Purge(o.t.Context(), boxOf(s.Args))
	return "purged, acq " + clockOf(ns), err
}

func (o *told) events(*story.Step) (string, error) {
	out := ""
	for _, e := range o.store.Events() {
		out += fmt.Sprintf("%v at %s:%s\n", e.Kind, clockOf(e.AcqNs), boxText(&e.Box))
	}
	return out, nil
}

// reopen closes the store and opens its directory again.
func (o *told) reopen(*story.Step) (string, error) {
	if err := o.store.Close(); err != nil {
		return "", errors.Join(err, errors.New("close"))
	}
	report := o.open()
	return fmt.Sprintf("%d records read from the log; %s", report.ReplayedRows, o.where()), nil
}
