package wal

import (
	"fmt"
	"os"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// Append is one append of a log file as it lies there. What it holds is valid during the call
// that hands it out.
type Append struct {
	Offset  int64
	Bytes   int64  // with its header
	Number  uint64 // 1 for the first append of a log, then one more each
	Entries []Entry
}

// ReadFile hands out the appends of a log file, and changes nothing. It goes on behind damage
// when a whole append follows that says that it was synced, and hands the damage out in place of
// what was there. What lies behind the last append that can be read so is the tail: nil when there
// is nothing. In the newest file of a log that is a torn write, which opening cuts off; in others
// it is damage, as is a tail that says so. Bytes from size on are not looked at: in a log in use
// they may be half an append; -1 means all.
//
// Errors: of the file system, wrapped; *formats.Error; what visit returns ends the reading.
// Cost: the file in memory, as in opening a log.
func ReadFile(
	path string, size int64, visit func(a *Append, damage *durable.CorruptError) error,
) (tail *durable.CorruptError, torn bool, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false, fmt.Errorf("read log file: %w", err)
	}
	if size >= 0 && size < int64(len(data)) {
		data = data[:size]
	}
	return readFile(path, data, visit)
}

func readFile(
	path string, data []byte, visit func(*Append, *durable.CorruptError) error,
) (tail *durable.CorruptError, torn bool, err error) {
	at, last := uint64(0), uint64(0)
	for at < uint64(len(data)) {
		a, bad := parseAppend(data, at)
		if bad != nil && bad.other != nil {
			return nil, false, bad.of(path)
		}
		if bad != nil {
			damage := &durable.CorruptError{File: path, Offset: int64(at), Reason: bad.reason}
			next, found := appendAfter(data, at, last)
			_, proved := proofAfter(data, at, last)
			if !found || bad.torn && !proved {
				return damage, bad.torn, nil
			}
			damage.Reason += fmt.Sprintf("; a good append follows at offset %d", next)
			if err := visit(nil, damage); err != nil {
				return nil, false, err
			}
			at = next
			continue
		}
		if err := visitAppend(path, &a, at, visit); err != nil {
			return nil, false, err
		}
		last = a.number
		at += a.bytes
	}
	return nil, false, nil
}

func visitAppend(
	path string, a *rawAppend, at uint64, visit func(*Append, *durable.CorruptError) error,
) error {
	out := Append{Offset: int64(at), Bytes: int64(a.bytes), Number: a.number}
	src := a.unmask()
	for range a.entries {
		e, rest, reason := parseEntry(src)
		if reason != "" {
			return visit(nil, &durable.CorruptError{File: path, Offset: int64(at), Reason: reason})
		}
		out.Entries = append(out.Entries, e)
		src = rest
	}
	if len(src) > 0 {
		return visit(nil, &durable.CorruptError{File: path, Offset: int64(at),
			Reason: "bytes follow the last entry of an append"})
	}
	return visit(&out, nil)
}

// appendAfter finds a good append of this log anywhere after an offset: one with a higher number
// than the last. Appends begin where sectors do.
func appendAfter(data []byte, at, last uint64) (offset uint64, found bool) {
	for at = at/sector.Size*sector.Size + sector.Size; at < uint64(len(data)); at += sector.Size {
		if a, err := parseAppend(data, at); err == nil && a.number > last {
			return at, true
		}
	}
	return 0, false
}

// proofAfter finds a good append of this log anywhere after an offset that says that the one after
// the last was synced.
func proofAfter(data []byte, at, last uint64) (offset uint64, found bool) {
	for {
		next, found := appendAfter(data, at, last)
		if !found {
			return 0, false
		}
		at = next
		if a, err := parseAppend(data, at); err == nil && a.number-1-a.unsynced > last {
			return at, true
		}
	}
}
