package wal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
)

// example returns the bytes of the hex example of FORMAT.md. Bytes before "* 3" are there three
// times.
func example(t *testing.T) (out []byte) {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```hex log\n")
	body, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("FORMAT.md has no example")
	}
	for line := range strings.Lines(body) {
		line, _, _ = strings.Cut(line, "#")
		digits, times, repeated := strings.Cut(line, "*")
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		n := 1
		if repeated && err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(times))
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, bytes.Repeat(b, n)...)
	}
	return out
}

// exampleAppends are a log file: an append of one entry with rows, and one of two of other kinds.
func exampleAppends() [][]Entry {
	return [][]Entry{
		{{Shard: 5, Term: 1, LSN: 42, Kind: 1, Data: []byte("rows")}},
		{{Shard: 0, Kind: 2, Data: []byte{1, 2, 3}}, {Shard: 6, Term: 1, LSN: 9, Kind: 1}},
	}
}

// The example of FORMAT.md says what its comments claim, and is what the writer writes.
func TestFormatExample(t *testing.T) { checkExample(t, example(t)) }

func checkExample(t *testing.T, example []byte) {
	d := newMemoryFolder()
	d.names[fileName(1)] = &memoryFile{folder: d, data: example}
	var got []Entry
	_, report, err := openFolder(d, "log", Options{}, replayed(&got))
	want := flatten(exampleAppends())
	want[2].Data = []byte{}
	if err != nil || report.TornSize != 0 || report.Appends != 2 || !sameEntries(got, want) {
		t.Fatalf("%+v, %v: %+v", report, err, got)
	}
	l, _, err := openFolder(newMemoryFolder(), "log", Options{}, replayed(&got))
	if err != nil {
		t.Fatal(err)
	}
	for _, entries := range exampleAppends() {
		if _, err := l.Append(entries); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.newest.(*memoryFile).data; !bytes.Equal(got, example) {
		t.Fatalf("written:\n%x, want\n%x", got, example)
	}
}

// Files of versions before the first release are refused, by name and version.
func TestTooOldFile(t *testing.T) {
	name := "testdata/v1/" + fileName(1)
	_, _, err := Open("testdata/v1", Options{}, replayed(new([]Entry)))
	ofVersion1(t, name, err)
	tail, _, err := ReadFile(name, -1,
		func(*Append, *durable.CorruptError) error { return nil })
	if ofVersion1(t, name, err); tail != nil {
		t.Error(tail)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := 4; at < 6; at++ { // a version that rots is damage
		corrupted := slices.Clone(text)
		corrupted[at] ^= 2
		if _, bad := parseAppend(corrupted, 0); bad == nil || bad.other != nil {
			t.Errorf("byte %d is corrupted: %+v", at, bad)
		}
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

// A file that an older program wrote is never written again; every reader must open it.
func TestOldFile(t *testing.T) {
	data, err := os.ReadFile("testdata/v2/" + fileName(1))
	if err != nil {
		t.Fatal(err)
	}
	checkExample(t, data)
}
