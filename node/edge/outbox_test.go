package edge

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/durable/memdir"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/node/store"
)

const testID = "a0b0c0d0000102030405060708090a0b"

// begun is a file of some changes, and the states that it went through.
func begun(t testing.TB) (text []byte, states []state) {
	t.Helper()
	d := new(memdir.Dir)
	b, err := openOutbox(d, "s", testID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(5) {
		states = append(states, b.now())
		err := b.change(false, func(s *state) error {
			s.Seq, s.NextNs = uint64(i)+1, i*10+10
			s.InFlight = &batch{FromNs: i * 10, ToNs: i*10 + 10, Records: 1, Bytes: 33}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return d.Content(outboxName), append(states, b.now())
}

func sameState(a, b state) bool {
	return bytes.Equal(journal.AppendLine(nil, a), journal.AppendLine(nil, b))
}

// TestOutboxTorn cuts the file at each of its bytes: the last whole line holds, and what follows is
// written where it ended.
func TestOutboxTorn(t *testing.T) {
	text, states := begun(t)
	headEnd := bytes.IndexByte(text, '\n') + 1
	for end := headEnd; end <= len(text); end++ {
		d := dirOf(text[:end])
		b, err := openOutbox(d, "s", testID)
		if err != nil {
			t.Fatalf("cut at %d: %v", end, err)
		}
		whole := bytes.Count(text[headEnd:end], []byte("\n"))
		// The first line after the head is of the state at the start.
		if want := states[max(0, whole-1)]; !sameState(b.now(), want) {
			t.Fatalf("cut at %d: %+v, want %+v", end, b.now(), want)
		}
		err = b.change(false, func(s *state) error { s.Seq = 77; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if b, err = openOutbox(d, "s", testID); err != nil || b.now().Seq != 77 {
			t.Fatalf("cut at %d, and written on: %+v, %v", end, b.now(), err)
		}
	}
}

// dirOf is a directory with an outbox.
func dirOf(text []byte) *memdir.Dir {
	d := new(memdir.Dir)
	d.Put(outboxName, text)
	return d
}

// TestOutboxKilled: a line that a process had written when it was killed, and not synced, is
// durable before what it says is sent. Without it a loss of power would let another batch begin
// under the same number.
func TestOutboxKilled(t *testing.T) {
	text, states := begun(t)
	for range 20 {
		d := dirOf(text[:len(text)-40])
		f, err := d.Open(outboxName)
		if err == nil {
			_, err = f.WriteAt(text[len(text)-40:], int64(len(text)-40))
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := openOutbox(d, "s", testID)
		if err != nil || !sameState(b.now(), states[len(states)-1]) || b.journal.Torn() != 0 {
			t.Fatalf("%+v, %v", b, err)
		}
		if d.LosePower(rand.New(rand.NewPCG(1, 1))); !bytes.Equal(d.Content(outboxName), text) {
			t.Fatalf("%d of %d bytes outlive a loss of power",
				len(d.Content(outboxName)), len(text))
		}
	}
}

// TestOutboxDamage: a bent byte is found, also in the last line, which is not taken for a torn one.
func TestOutboxDamage(t *testing.T) {
	text, _ := begun(t)
	for i := range text {
		bent := bytes.Clone(text)
		bent[i] ^= 1
		b, err := openOutbox(dirOf(bent), "s", testID)
		switch {
		case err == nil:
			t.Fatalf("byte %d is bent, and %+v is read", i, b.now())
		case err != nil && !strings.Contains(err.Error(), outboxName):
			t.Fatalf("byte %d: %v does not name the file", i, err)
		}
	}
	if _, err := openOutbox(dirOf(text), "other", testID); err == nil ||
		!strings.Contains(err.Error(), "other") {
		t.Errorf("of another store: %v", err)
	}
}

// TestOutboxFile: the file is short again after many changes, and what failed says so for good.
func TestOutboxFile(t *testing.T) {
	dir := durable.Dir(t.TempDir())
	b, err := openOutbox(dir, "s", testID)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int64{}
	for i := range uint64(9000) {
		err := b.change(true, func(s *state) error { s.Seq = i; return nil })
		if err == nil && i%3 == 0 {
			err = b.sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, b.journal.Size())
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	b, err = openOutbox(dir, "s", "ffffffffffffffffffffffffffffffff")
	if err != nil || b.now().Seq != 8999 || b.writer.ID[4] != 0 || b.journal.Torn() != 0 {
		t.Errorf("%+v, %v", b.now(), err)
	}
	if most := slices.Max(sizes); most > rewriteBytes+1000 {
		t.Errorf("the file had %d bytes", most)
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	d := newPowerDisk(rand.New(rand.NewPCG(1, 1)))
	if b, err = openOutbox(d, "s", testID); err != nil {
		t.Fatal(err)
	}
	d.back(0)
	if err := b.change(false, func(s *state) error { s.Seq = 5; return nil }); err == nil {
		t.Fatal("no error in the dark")
	}
	d.back(-1)
	if err := b.change(true, func(*state) error { return nil }); !errors.Is(err, errDark) {
		t.Errorf("after the disk failed: %v", err)
	}
	if b.now().Seq != 0 {
		t.Errorf("a change that failed is there: %+v", b.now())
	}
}

// TestOutboxWithoutSpace: for lack of space nothing changes, and later it goes on; an empty file is
// not taken for none, as all would be shipped again.
func TestOutboxWithoutSpace(t *testing.T) {
	d := new(memdir.Dir)
	b, err := openOutbox(d, "s", testID)
	if err != nil {
		t.Fatal(err)
	}
	b.mostBytes = 0
	for _, full := range []bool{true, true, false} {
		if d.SetFree(-1); full {
			d.SetFree(10)
		}
		err := b.change(false, func(s *state) error { s.Seq++; return nil })
		if full != errors.Is(err, durable.ErrNoSpace) || !full && err != nil {
			t.Fatalf("full %v: %v", full, err)
		}
	}
	if b, err = openOutbox(d, "s", testID); err != nil || b.now().Seq != 1 {
		t.Fatalf("%+v, %v", b.now(), err)
	}
	d.Put(outboxName, nil)
	if _, err := openOutbox(d, "s", testID); err == nil {
		t.Error("an empty file is taken")
	}
}

// TestPutBeforeTheEnd: who waits for the start of an edge that cannot start does not hold it up.
func TestPutBeforeTheEnd(t *testing.T) {
	e := &Edge{meter: meter{counted: make(chan struct{})}}
	e.run, e.cancel = context.WithCancel(context.Background())
	time.AfterFunc(time.Millisecond, e.cancel)
	_, err := (*shipper)(e).Put(t.Context(), batchOf(1), nil)
	if !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// An outbox of another version is not damaged, and no advice takes it away.
func TestOutboxOfAnotherVersion(t *testing.T) {
	for _, version := range []int{outboxFormat - 1, outboxFormat + 1, 255} {
		dir := t.TempDir()
		name := filepath.Join(dir, dirName, outboxName)
		text := journal.AppendLine(nil, header{Format: version, Writer: testID, Store: "s"})
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		damage, _, err := CheckOutbox(dir)
		if !formats.Is(err) || damage != nil {
			t.Errorf("version %d: %v, %v", version, damage, err)
		}
		d := dirOf(text)
		if _, err := openOutbox(d, "s", testID); !formats.Is(err) ||
			strings.Contains(err.Error(), "without the file") ||
			!bytes.Equal(d.Content(outboxName), text) {
			t.Errorf("version %d is opened: %v", version, err)
		}
		text[len(text)-3] ^= 1
		if _, err := parseOutbox(text); err == nil || formats.Is(err) {
			t.Errorf("version %d, which rotted: %v", version, err)
		}
	}
}

func FuzzParseOutbox(f *testing.F) {
	text, _ := begun(f)
	f.Add(text)
	f.Add(text[:len(text)-5])
	f.Add(journal.AppendLine(bytes.Clone(text), state{Seq: 40, SentNs: 60, NextNs: 50,
		InFlight: &batch{FromNs: 40, ToNs: 50, Records: 1, Bytes: 33, Again: true},
		Forgot:   []step{{ToNs: 10, Records: 3}, {ToNs: 20, Records: 4}}, Lacks: 2,
		Lack: &lack{TimeNs: 99, FromNs: 5, ToNs: 60, Here: 9, Gone: 7, GoneNs: 20}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseOutbox(text)
		if err != nil {
			return
		}
		if err := b.state.check(); err != nil {
			t.Fatal(err)
		}
		back, err := parseOutbox(b.text())
		if err != nil || !sameState(back.state, b.state) {
			t.Fatalf("%s is read as %+v, %v", b.text(), back, err)
		}
	})
}
