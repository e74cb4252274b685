package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// There is one committer at a time, whoever it is, and none once the store is closed.
func TestOneCommitterAtATime(t *testing.T) {
	s, _, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	const each = 200
	runs := 0 // the committer's: the race detector finds two of them
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range each {
				if err := s.onCommitter(t.Context(), func() { runs++ }); err != nil {
					t.Error(err)
				}
				if n%20 == i {
					mustPut(t, s, batchOf(record.Key{MID: int64(i)}), WriterSeq{})
				}
			}
		})
	}
	wg.Wait()
	if runs != 4*each {
		t.Errorf("%d runs of %d", runs, 4*each)
	}
	busy, free := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		if err := s.onCommitter(t.Context(), func() { close(busy); <-free }); err != nil {
			t.Error(err)
		}
	})
	<-busy
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := func() { t.Error("a second committer") }
	if err := s.onCommitter(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("while another is the committer: %v", err)
	}
	closed := make(chan error, 1)
	wg.Go(func() { closed <- s.Close() })
	<-s.stop // Close waits for the committer
	select {
	case err := <-closed:
		t.Errorf("closed beside the committer: %v", err)
	default:
	}
	close(free)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := s.onCommitter(t.Context(), never); !errors.Is(err, ErrClosed) {
		t.Errorf("once closed: %v", err)
	}
}

// Whoever panics as the committer may be outlived by the process, as a request is. What it has left
// is unknown, so nothing is stored until the store is opened again.
func TestAPanicOfTheCommitterEndsCommits(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	s, _, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	func() {
		defer func() { _ = recover() }()
		_ = s.onCommitter(t.Context(), func() {
			s.oracle.Reserve(1)
			panic("midway")
		})
	}()
	_, err = s.Put(t.Context(), batchOf(record.Key{MID: 2}), WriterSeq{})
	if !errors.Is(err, ErrFailed) {
		t.Errorf("a put after a panic: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	mustPut(t, openTest(t, opt), batchOf(record.Key{MID: 2}), WriterSeq{})
}

// The memory for applying that stores share holds on to nothing, and is not large.
func TestMemoryForApplyingIsLeftEmpty(t *testing.T) {
	m := &applyBuffers{commands: make([]loggedCommand, 3*manyCommands)}
	for i := range m.commands {
		c := &m.commands[i]
		if err := c.parse(mustAppendPut(t, record.Key{MID: int64(i)})); err != nil || c.Err != nil {
			t.Fatal(err, c.Err)
		}
		m.buffers.entries = append(m.buffers.entries, wal.Entry{Rest: c.Data})
	}
	m.buffers.entries = m.buffers.entries[:1] // what the last append had
	m.keep(len(m.commands))
	if len(m.commands) != manyCommands {
		t.Errorf("memory of %d commands is kept", len(m.commands))
	}
	for i := range m.commands {
		if c := &m.commands[i]; c.Data != nil || c.Kind != 0 || c.Rows == nil {
			t.Errorf("command %d: %d bytes of the log, kind %d, rows %v", i, len(c.Data), c.Kind,
				c.Rows)
		}
	}
	for i, e := range m.buffers.entries[:cap(m.buffers.entries)] {
		if e.Rest != nil {
			t.Errorf("entry %d holds on to %d bytes of the log", i, len(e.Rest))
		}
	}
}

func mustAppendPut(t *testing.T, key record.Key) []byte {
	t.Helper()
	data, err := commands.AppendPut(nil, batchOf(key), WriterSeq{})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
