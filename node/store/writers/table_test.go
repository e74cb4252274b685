package writers

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/crc32c"
	"github.com/pentad-db/pentad/sdk/record"
)

// After a crash the log repeats what was overtaken long ago: what is in the writer's window is
// still known.
func TestAnswersOutliveReplay(t *testing.T) {
	id := [16]byte{7}
	table := New[int]()
	add := func(seq uint64) {
		table.Record(Seq{ID: id, Seq: seq}, Result{Seq: seq, FirstNs: int64(seq), Records: 1})
	}
	add(37) // overtook 20, and its log file went
	for seq := uint64(20); seq <= 100; seq++ {
		add(seq)
	}
	dir := t.TempDir()
	if err := table.Save(dir); err != nil {
		t.Fatal(err)
	}
	table = New[int]()
	if err := table.Load(dir); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(20); seq <= 100; seq++ { // what is left of the log
		if seq != 37 {
			add(seq)
		}
	}
	for seq := uint64(37); seq <= 100; seq++ {
		known, _, err := table.Admit(Seq{ID: id, Seq: seq}, nil, new(int))
		if err != nil || known == nil {
			t.Fatalf("batch %d would be stored again: %v", seq, err)
		}
	}
}

// TestWritersUntil: a table up to an acq has no persistent writer whose newest batch is not below,
// as it would pass for one that lacks nothing. The same id without the property is another writer.
func TestWritersUntil(t *testing.T) {
	table, again := New[int](), New[int]()
	persistent, other := record.Writer{ID: [16]byte{9}, Persistent: true},
		record.Writer{ID: [16]byte{9}}
	for i := range uint64(3) {
		a := Result{Seq: i + 1, FirstNs: int64(100 * (i + 1)), Records: 10}
		table.Record(seqOf(persistent, a.Seq), a)
		table.Record(seqOf(other, a.Seq), a)
	}
	for untilNs, want := range map[int64]bool{0: false, 250: false, 309: false, 310: true,
		math.MaxInt64: true} {
		var err error
		if again.byWriter, err = parseTable(table.Encode(untilNs)); err != nil {
			t.Fatal(err)
		}
		if _, ok := again.byWriter[persistent]; ok != want || again.byWriter[other] == nil {
			t.Errorf("up to %d: %v", untilNs, again.byWriter)
		}
	}
}

// Edges are never forgotten, so their number is bounded, apart from that of other writers: neither
// takes the space of the other. Who is known is told its answer whatever came since.
func TestManyPersistentWriters(t *testing.T) {
	table := New[int]()
	add := func(persistent bool, number int) Seq {
		id := Seq{Seq: 1, Persistent: persistent}
		binary.LittleEndian.PutUint64(id.ID[8:], uint64(number))
		return id
	}
	for i := range maxPersistent {
		id := add(true, i)
		if known, err := table.FindOrAdmit(id, 1); known != nil || err != nil {
			t.Fatalf("edge %d: %v, %v", i, known, err)
		}
		table.RecordInOrder(id, Result{Seq: 1, FirstNs: 1, Records: 1})
	}
	file := table.Encode(math.MaxInt64)
	if perEdge := len(file) / maxPersistent; perEdge > 56 {
		t.Errorf("%d bytes of the file for each edge", perEdge)
	}
	dir, again := t.TempDir(), New[int]()
	if err := cmp.Or(Replace(dir, file), again.Load(dir)); err != nil {
		t.Fatal(err)
	}
	one := add(true, maxPersistent)
	for _, table := range []*Table[int]{table, again} {
		if _, err := table.FindOrAdmit(one, 2+10*IdleNs); !errors.Is(err, ErrTooMany) {
			t.Errorf("one edge more: %v", err)
		}
		if _, _, err := table.Admit(one, nil, new(int)); !errors.Is(err, ErrTooMany) {
			t.Errorf("one edge more: %v", err)
		}
		old := add(true, 0)
		if known, err := table.FindOrAdmit(old, 2+10*IdleNs); known == nil || err != nil {
			t.Errorf("an edge that comes back: %v, %v", known, err)
		}
		if _, err := table.FindOrAdmit(add(false, 0), 2); err != nil {
			t.Errorf("another writer: %v", err)
		}
	}
}

// A table of writers that is full takes a new one when another has been silent for a week of the
// log, whenever the store looked at them last.
func TestManyWritersOfALog(t *testing.T) {
	table := New[int]()
	table.Expire(50) // there is no one yet
	old, late := &writer{lastAcq: 100}, &writer{lastAcq: 200}
	for i := range maxWriters {
		id := record.Writer{ID: [16]byte{byte(i), byte(i >> 8), byte(i >> 16)}}
		if table.byWriter[id] = late; i == 0 {
			table.byWriter[id] = old
		}
	}
	f := func(atNs int64, want error) {
		t.Helper()
		_, err := table.FindOrAdmit(Seq{ID: [16]byte{15: 1}, Seq: 1}, atNs)
		if !errors.Is(err, want) {
			t.Errorf("at %d: %v, want %v", atNs, err, want)
		}
	}
	f(150+IdleNs, nil)
	table.RecordInOrder(Seq{ID: [16]byte{15: 2}, Seq: 1}, Result{Seq: 1, FirstNs: 150 + IdleNs})
	f(160+IdleNs, ErrTooMany)
	f(200+IdleNs, ErrTooMany)
	f(201+IdleNs, nil)
}

// What a log repeats of a writer that was forgotten since is no part of its new life.
func TestForgottenWriterStaysForgotten(t *testing.T) {
	table := New[int]()
	id := Seq{ID: [16]byte{1}, Seq: 100}
	old := Result{Seq: 100, FirstNs: 1}
	table.RecordInOrder(id, old)
	now := IdleNs + 2
	if known, err := table.FindOrAdmit(id, now); known != nil || err != nil {
		t.Fatalf("after a week: %v, %v", known, err)
	}
	table.RecordInOrder(Seq{ID: id.ID, Seq: 1}, Result{Seq: 1, FirstNs: now})
	table.RecordInOrder(id, old) // from the log, after a start
	for seq := range uint64(3) {
		known, err := table.FindOrAdmit(Seq{ID: id.ID, Seq: seq}, now+1)
		if (known != nil) != (seq == 1) || err != nil {
			t.Fatalf("sequence %d: %v, %v", seq, known, err)
		}
	}
}

// seqOf returns a batch of a writer.
func seqOf(w record.Writer, seq uint64) Seq {
	return Seq{ID: w.ID, Seq: seq, Persistent: w.Persistent}
}

// TestUnknownFlags: a file with a flag of a newer program is refused as a whole.
func TestUnknownFlags(t *testing.T) {
	table := New[int]()
	table.Record(Seq{ID: [16]byte{1}, Seq: 1, Persistent: true}, Result{Seq: 1})
	const flagsAt = 4 + 4 + EntryBytes - 2
	for flags, want := range map[byte]string{0: "", 1: "", 2: "flags 0x2", 3: "flags 0x3"} {
		file := table.Encode(math.MaxInt64)
		file[flagsAt] = flags
		body := file[:len(file)-4]
		got, err := parseTable(binary.LittleEndian.AppendUint32(body, crc32c.Sum(body)))
		if want == "" && (err != nil ||
			got[record.Writer{ID: [16]byte{1}, Persistent: flags == 1}] == nil) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("flags %d: %v, %v", flags, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	table := New[int]()
	for i := range 3 {
		table.Record(Seq{ID: [16]byte{byte(i)}, Seq: uint64(i), Persistent: i == 1},
			Result{Seq: uint64(i), FirstNs: 7, Records: 3})
	}
	if err := table.Save(dir); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, layout.WritersFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		table := New[int]()
		var err error
		if table.byWriter, err = parseTable(data); err != nil {
			return
		}
		if table.Count() > len(data)/EntryBytes {
			t.Fatalf("%d writers from %d bytes", table.Count(), len(data))
		}
		again, err := parseTable(table.Encode(math.MaxInt64))
		for w := range again {
			if table.byWriter[w] == nil {
				t.Fatalf("%+v is new", w)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
