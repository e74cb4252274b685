package transfer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// exportFormats are the formats that come back exactly.
func exportFormats() []exchange.Format {
	return []exchange.Format{exchange.NDJSON, exchange.CSV, exchange.Arrow, exchange.Parquet}
}

// random is a source of numbers whose seed a failure prints.
func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// oddRecords are records with the extremes of all parts among them, by ascending acq.
func oddRecords(r *rand.Rand, count int) []record.Record {
	pick := func(d record.Dim) int64 {
		switch r.IntN(8) {
		case 0:
			return d.Min()
		case 1:
			return d.Max() - 1
		case 2:
			return int64(r.Uint64()>>1) % d.Max()
		}
		return int64(r.IntN(4))
	}
	out := make([]record.Record, count)
	for i := range out {
		out[i].Key = record.Key{CID: int32(pick(record.CID)), MID: pick(record.MID),
			MOID: int32(pick(record.MOID)), CapNs: pick(record.Cap), AcqNs: int64(i)}
		switch r.IntN(12) {
		case 0:
			out[i].Tomb = true
		case 1: // an empty payload
		case 2:
			out[i].Payload = binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN())|7)
		case 3:
			out[i].Payload = []byte("a, \"b\"\r\nc\n")
		case 4:
			out[i].Payload = noise(r, r.IntN(5000))
		default:
			out[i].Payload = binary.LittleEndian.AppendUint64(nil,
				math.Float64bits(float64(r.IntN(1000))/8))
		}
	}
	out[0].AcqNs, out[count-1].AcqNs = math.MinInt64, math.MaxInt64-1
	out[count/2].Tomb, out[count/2].Payload = false, noise(r, 1<<20)
	return out
}

// noise does not compress.
func noise(r *rand.Rand, size int) []byte {
	out := make([]byte, 0, size+7)
	for len(out) < size {
		out = binary.LittleEndian.AppendUint64(out, r.Uint64())
	}
	return out[:size]
}

// fewer is a number of records, with -short a tenth of it.
func fewer(count int) int {
	if testing.Short() {
		return count / 10
	}
	return count
}

// oddValues are the ways in which payloads are decoded.
func oddValues(t *testing.T) map[string][]exchange.Value {
	t.Helper()
	out := map[string][]exchange.Value{"none": nil}
	for _, kind := range []string{"f64", "f32", "i64", "i32", "u32", "text"} {
		v, err := exchange.NewValue(kind)
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = []exchange.Value{v}
	}
	for i, kind := range []string{"f32", "i32"} {
		v, err := exchange.NewField(fmt.Sprint("value_", kind), kind, 4*i)
		if err != nil {
			t.Fatal(err)
		}
		out["fields"] = append(out["fields"], v)
	}
	return out
}

func sameRecord(a, b record.Record) bool {
	a.AcqNs, b.AcqNs = 0, 0
	return a.Key == b.Key && a.Tomb == b.Tomb && bytes.Equal(a.Payload, b.Payload)
}

// written is a file of a format.
func written(
	t testing.TB, format exchange.Format, values []exchange.Value, records []record.Record,
) []byte {
	t.Helper()
	var out bytes.Buffer
	w := newExportWriter(&out, format, &exchange.Header{Version: exchange.Version}, values, nil)
	var b record.Batch
	for i, r := range records {
		if r.Tomb {
			b.AppendStampedTomb(r.Key)
		} else {
			b.AppendStamped(r.Key, r.Payload)
		}
		if b.Len() == 700 || i == len(records)-1 {
			if err := w.Write(&b); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readBack reads a file, and how reading it ended.
func readBack(file []byte) (records []record.Record, err error) {
	r, err := openExport(bytes.NewReader(file), "", nil)
	var b record.Batch
	for err == nil {
		if err = r.Next(&b); err != nil {
			break
		}
		for i := range b.Len() {
			one := b.Record(i)
			one.Payload = slices.Clone(one.Payload)
			records = append(records, one)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return records, err
}

// Records of all sorts come back from every format as they were, and a file that was cut is an
// error that leaves only true records behind.
func TestFormatsRoundTrip(t *testing.T) {
	r := random(t)
	for _, format := range exportFormats() {
		for name, values := range oddValues(t) {
			want := oddRecords(r, fewer(2000))
			file := written(t, format, values, want)
			got, err := readBack(file)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%s, values %s: %d records of %d, %v", format, name, len(got), len(want),
					err)
			}
			for i := range want {
				if !sameRecord(got[i], want[i]) {
					t.Fatalf("%s, values %s: record %d: %+v, want %+v", format, name, i, got[i].Key,
						want[i].Key)
				}
			}
			if format == exchange.CSV {
				continue // which does not say where it ends
			}
			cut := file[:r.IntN(len(file))]
			got, err = readBack(cut)
			if err == nil {
				t.Fatalf("%s, values %s: %d of %d bytes were read without an error", format, name,
					len(cut), len(file))
			}
			for i := range got {
				if !sameRecord(got[i], want[i]) {
					t.Fatalf("%s, values %s: record %d of a cut file differs", format, name, i)
				}
			}
		}
	}
}

// run runs the command line in this process.
func runCommand(t testing.TB, addr string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, notes bytes.Buffer
	a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &notes, Now: time.Now,
		Getenv: func(string) string { return "" }}}
	code = a.run(t.Context(), append(args, "--addr", addr))
	return out.String(), notes.String(), code
}

// stored returns all records of a node by acq.
func storedRecords(t *testing.T, db *client.Client) []record.Record {
	t.Helper()
	var out []record.Record
	for r, err := range db.Query(t.Context(), &record.Query{Order: record.OrderAcq}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Payload = slices.Clone(r.Payload)
		out = append(out, r)
	}
	return out
}

// An export of one node into another brings everything, versions in their order, and a second
// import of the file nothing more.
func TestExportImport(t *testing.T) {
	r := random(t)
	addr, db := testNode(t)
	w := db.NewWriter(client.WriterOptions{BatchRecords: 1000})
	for _, one := range oddRecords(r, fewer(5000)) {
		if err := w.AddRecord(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := storedRecords(t, db)
	for _, format := range exportFormats() {
		file := filepath.Join(t.TempDir(), "all."+string(format))
		_, stderr, code := runCommand(t, addr, "export", "--view", "all", "-f", file)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", format, code, stderr)
		}
		to, copied := testNode(t)
		for _, again := range []string{"", "--again"} {
			for range 2 {
				args := append([]string{"import", file, "-o", "json"}, strings.Fields(again)...)
				if _, stderr, code := runCommand(t, to, args...); code != 0 {
					t.Fatalf("%s: exit code %d: %s", format, code, stderr)
				}
			}
			times := 1
			if again != "" {
				times = 3
			}
			got := storedRecords(t, copied)
			if len(got) != times*len(want) {
				t.Fatalf("%s: %d records, want %d times %d", format, len(got), times, len(want))
			}
			sameVersions(t, got[:len(want)], want)
		}
		names, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
		if err != nil || len(names) > 0 {
			t.Errorf("%s: %q is left beside the file, %v", format, names, err)
		}
	}
}

// sameVersions wants the same versions of every reading in the same order.
func sameVersions(t *testing.T, got, want []record.Record) {
	t.Helper()
	series := func(records []record.Record) map[record.Key][]record.Record {
		out := map[record.Key][]record.Record{}
		for _, r := range records {
			k := r.Key
			k.AcqNs = 0
			out[k] = append(out[k], r)
		}
		return out
	}
	have := series(got)
	for k, versions := range series(want) {
		if !slices.EqualFunc(have[k], versions, sameRecord) {
			t.Fatalf("the versions of %+v differ: %d, want %d", k, len(have[k]), len(versions))
		}
	}
}

// An import that was interrupted is finished by the next: whatever batches the first one stored,
// nothing is missing and nothing is there twice.
func TestImportResumes(t *testing.T) {
	r := random(t)
	var records []record.Record
	batches := 65 // more than a node keeps answers
	if testing.Short() {
		batches = 4
	}
	for i := range batches*importBatchRecords + 5 {
		records = append(records, record.Record{Key: record.Key{CID: 1, MID: int64(i % 7),
			CapNs: int64(i)}, Payload: []byte{byte(i)}})
	}
	file := filepath.Join(t.TempDir(), "all.csv")
	content := written(t, exchange.CSV, nil, records)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	addr, db := testNode(t)
	id, err := contentID(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	w := db.NewWriter(client.WriterOptions{BatchRecords: importBatchRecords,
		BatchBytes: importBatchBytes, ID: id})
	for _, one := range records[:r.IntN(len(records))] {
		if err := w.AddRecord(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	w.Abort()
	for range 2 {
		if _, stderr, code := runCommand(t, addr, "import", file); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	n, _, err := db.Count(t.Context(), &record.Query{})
	if err != nil || n != uint64(len(records)) {
		t.Fatalf("%d records, want %d, %v", n, len(records), err)
	}
}

// heldRecords is a source of records in memory. It finds those in the range of acq.
type heldRecords struct{ records []record.Record }

func (h *heldRecords) found(q *record.Query) (found []record.Record) {
	for _, r := range h.records {
		if q.Box[record.Acq].Contains(r.AcqNs) {
			found = append(found, r)
		}
	}
	return found
}

func (h *heldRecords) Count(_ context.Context, q *record.Query) (uint64, wire.End, error) {
	return uint64(len(h.found(q))), wire.End{Complete: true}, nil
}

func (h *heldRecords) Scan(
	_ context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	var b record.Batch
	for _, r := range h.found(q) {
		if r.Tomb {
			b.AppendStampedTomb(r.Key)
		} else {
			b.AppendStamped(r.Key, r.Payload)
		}
		if b.Len() == 3 {
			if err := emit(&b); err != nil {
				return wire.End{}, err
			}
			b.Reset()
		}
	}
	if b.Len() == 0 {
		return wire.End{Complete: true}, nil
	}
	return wire.End{Complete: true}, emit(&b)
}

// Slices hand out every record once and by acq, however acqs cluster, and hold no more than they
// may.
func TestAcqSlices(t *testing.T) {
	r := random(t)
	for range 300 {
		h := &heldRecords{}
		spread := int64(1) << r.IntN(62)
		for acq := -r.Int64N(spread); len(h.records) < 200 && acq < spread; acq += 1 +
			r.Int64N(max(spread/100, 1)) {
			h.records = append(h.records, record.Record{Key: record.Key{AcqNs: acq},
				Payload: make([]byte, r.IntN(20)), Tomb: r.IntN(5) == 0})
		}
		for i := range h.records {
			if h.records[i].Tomb {
				h.records[i].Payload = nil
			}
		}
		want := slices.Clone(h.records)
		r.Shuffle(len(want), func(i, k int) {
			h.records[i], h.records[k] = h.records[k], h.records[i]
		})
		var got []record.Record
		s := &acqSlices{db: h, query: &record.Query{}, maxRecords: uint64(1 + r.IntN(50)),
			maxBytes: 1 + r.IntN(300), emit: func(b *record.Batch) error {
				for i := range b.Len() {
					one := b.Record(i)
					one.Payload = slices.Clone(one.Payload)
					got = append(got, one)
				}
				return nil
			}}
		if r.IntN(2) == 0 {
			from, to := -r.Int64N(spread), r.Int64N(spread)+1
			s.query.Box[record.Acq] = record.RangeSet{{From: from, To: to}}
			want = slices.DeleteFunc(want, func(one record.Record) bool {
				return one.AcqNs < from || one.AcqNs >= to
			})
		}
		err := s.run(t.Context(), math.MinInt64, math.MaxInt64, uint64(len(want)))
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b record.Record) bool { return sameRecord(a, b) && a.AcqNs == b.AcqNs }
		if !slices.EqualFunc(got, want, same) {
			t.Fatalf("%d records, want %d, or in another order", len(got), len(want))
		}
	}
}
