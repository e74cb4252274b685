package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/sdk/record"
)

// examples returns the hex examples of FORMAT.md by name. Bytes before "* 3" are there three times.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	found, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```hex "):
			name = strings.TrimPrefix(line, "```hex ")
		case strings.HasPrefix(line, "```"):
			name = ""
		case name != "":
			code, _, _ := strings.Cut(line, "#")
			code, times, repeated := strings.Cut(code, "*")
			b, err := hex.DecodeString(strings.Join(strings.Fields(code), ""))
			if err != nil {
				t.Fatalf("example %s: %q: %v", name, line, err)
			}
			n := 1
			if repeated {
				if n, err = strconv.Atoi(strings.TrimSpace(times)); err != nil {
					t.Fatalf("example %s: %q: %v", name, line, err)
				}
			}
			found[name] = append(found[name], bytes.Repeat(b, n)...)
		}
	}
	return found
}

// The examples of FORMAT.md say what its comments claim, and are what the writers write.
func TestFormatExamples(t *testing.T) {
	found := examples(t)
	t.Run("rows", func(t *testing.T) { checkExampleRows(t, found["rows"]) })
	t.Run("segment", func(t *testing.T) { checkExampleSealed(t, found["segment"], exampleInput()) })
	t.Run("texts", func(t *testing.T) { checkExampleSealed(t, found["texts"], exampleTexts()) })
	t.Run("series", func(t *testing.T) { checkExampleSeries(t, found["series"]) })
	t.Run("ranks", func(t *testing.T) { checkExampleRanks(t, found["ranks"]) })
	t.Run("tombs", func(t *testing.T) { checkExampleSealed(t, found["tombs"], exampleTombs()) })
	t.Run("runs", func(t *testing.T) { checkExampleSealed(t, found["runs"], exampleRuns()) })
	t.Run("clock", func(t *testing.T) { checkExampleSealed(t, found["clock"], exampleClock()) })
	t.Run("sub-runs", func(t *testing.T) {
		checkExampleSealed(t, found["sub-runs"], exampleSubRuns())
	})
	t.Run("lines", func(t *testing.T) { checkExampleSealed(t, found["lines"], exampleLines()) })
}

func sameBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d is %02x, want %02x", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
}

func checkExampleRows(t *testing.T, example []byte) {
	var h RowsHeader
	var b record.Batch
	if err := ParseRowsEntry(example, &h, &b); err != nil || h != exampleHeader || b.Len() != 2 {
		t.Fatalf("%+v, %d rows, %v", h, b.Len(), err)
	}
	rows := exampleRows()
	for k, i := range []int{0, 2} {
		want := rows.Key(i)
		want.AcqNs = 1000 + int64(k)
		if b.Key(k) != want || !bytes.Equal(b.Payload(k), rows.Payload(i)) {
			t.Fatalf("row %d is %+v, want %+v", k, b.Record(k), want)
		}
	}
	sameBytes(t, "written", AppendRowsEntry(nil, &h, rows, []uint32{0, 2}), example)
}

func checkExampleSealed(t *testing.T, example []byte, in *SealedInput) {
	s, err := parseSealed("example", example)
	if err != nil {
		t.Fatal(err)
	}
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := readAll(example, offsets, sizes)
	if err != nil || got.Len() != in.Rows.Len() {
		t.Fatalf("%d rows, %v", got.Len(), err)
	}
	for p, rank := range in.Order {
		if in.Flags != nil && in.Flags[0]>>rank&1 != 0 {
			got.CapNs[p]-- // readAll counts it up
		}
		wantRow(t, in, got, p, rank, false)
	}
	sameBytes(t, "written", sealBytes(t, in), example)
}

// Files of versions before the first release are refused, by name and version.
func TestTooOldFile(t *testing.T) {
	_, err := OpenSealed("testdata/v1-segment.seg", nil)
	ofVersion1(t, "testdata/v1-segment.seg", err)
	_, damage, err := OpenDamaged("testdata/v1-segment.seg")
	if ofVersion1(t, "testdata/v1-segment.seg", err); len(damage) > 0 {
		t.Error(damage)
	}
}

func ofVersion1(t *testing.T, file string, err error) {
	t.Helper()
	var other *formats.Error
	if !errors.As(err, &other) || other.File != file || other.Version != 1 || other.Known != 2 ||
		errors.As(err, new(*durable.CorruptError)) {
		t.Errorf("%s: %v", file, err)
	}
}

// Files that older versions wrote are never written again; every reader must open them.
func TestOldFiles(t *testing.T) {
	for name, in := range map[string]*SealedInput{"segment": exampleInput(),
		"texts": exampleTexts(), "tombs": exampleTombs(), "runs": exampleRuns(),
		"clock": exampleClock(), "sub-runs": exampleSubRuns(), "lines": exampleLines()} {
		s, err := OpenSealed("testdata/v2-"+name+".seg", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkAll(s); err != nil {
			t.Fatal(err)
		}
		offsets, sizes, err := s.Locate()
		if err != nil {
			t.Fatal(err)
		}
		var b Block
		var got record.Batch
		for i := range offsets {
			if err := s.Block(i, offsets[i], sizes[i], &b); err != nil {
				t.Fatal(err)
			}
			if err := b.GatherSpan(0, b.Rows(), false, &got); err != nil {
				t.Fatal(err)
			}
		}
		for p, rank := range in.Order {
			wantRow(t, in, &got, p, rank, false)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
