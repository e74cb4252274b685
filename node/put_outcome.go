package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// fate is what is known of a row of a put that failed.
type fate uint8

const (
	rowStored fate = iota
	rowNotStored
	rowUnknown
)

// PutError is a put of which some groups stored their rows and others did not, or may have. Sent
// again under the same writer and sequence, each row is stored once.
type PutError struct {
	fates  []fate // by row
	writer store.WriterSeq
	Err    error // of the first group that failed
}

func (e *PutError) Error() string {
	count := [3]int{}
	for _, f := range e.fates {
		count[f]++
	}
	return fmt.Sprintf("%d of %d records are stored, %d are not, and of %d it is unknown: %v",
		count[rowStored], len(e.fates), count[rowNotStored], count[rowUnknown], e.Err)
}

// Writer returns under what the put may be sent again.
func (e *PutError) Writer() store.WriterSeq { return e.writer }

// Unwrap returns the cause.
func (e *PutError) Unwrap() error { return e.Err }

// toWire gives the error the kind of its cause, and what is known of rows that have numbers.
func (e *PutError) toWire(number func(row int) int) *wire.Error {
	var sets [3]record.RangeSet
	for i, f := range e.fates {
		n := int64(number(i))
		if last := len(sets[f]) - 1; last >= 0 && sets[f][last].To == n {
			sets[f][last].To++
		} else {
			sets[f] = append(sets[f], record.Range{From: n, To: n + 1})
		}
	}
	out := *toWire(e.Err)
	out.Message = e.Error()
	return wire.NewOutcome(&out, wire.Outcome{Stored: wire.FormatRanges(sets[rowStored]),
		NotStored: wire.FormatRanges(sets[rowNotStored]),
		Unknown:   wire.FormatRanges(sets[rowUnknown]), Key: keyOf(e.writer)})
}

// fateOf returns what an error says of rows that were to be stored whole or not at all; again says
// that they were sent before, without an answer.
func fateOf(err error, again bool) fate {
	switch {
	case err == nil:
		return rowStored
	case again, errors.Is(err, replica.ErrUnknown), errors.Is(err, segment.ErrLogFailed),
		errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrSequenceTooOld),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rowUnknown
	}
	return rowNotStored
}

// set notes what is known of some rows.
func (e *PutError) set(rows []uint32, f fate) {
	for _, i := range rows {
		e.fates[i] = f
	}
}

// maxKeyBytes bounds an Idempotency-Key.
const maxKeyBytes = 256

// keyOf is the reverse of parseKey for a writer that a node drew.
func keyOf(w store.WriterSeq) string {
	if w.ID == [16]byte{} {
		return ""
	}
	return fmt.Sprintf("%x/%d", w.ID, w.Seq)
}

// parseKey reads an Idempotency-Key: NAME/NUMBER is a writer and its sequence, where the name is
// that of a writer or its 32 hex digits; without a number, each key is a writer with one put.
func parseKey(key string) (w store.WriterSeq, err error) {
	if len(key) > maxKeyBytes {
		return w, &wire.Error{Kind: wire.KindInvalid, Part: "Idempotency-Key",
			Message: fmt.Sprintf("the key has %d bytes, at most %d", len(key), maxKeyBytes)}
	}
	name := key
	w.Seq = 1
	if at := strings.LastIndexByte(key, '/'); at > 0 {
		if seq, err := strconv.ParseUint(key[at+1:], 10, 64); err == nil {
			name, w.Seq = key[:at], seq
		}
	}
	if raw, err := hex.DecodeString(name); err == nil && len(raw) == len(w.ID) {
		copy(w.ID[:], raw)
		return w, nil
	}
	sum := sha256.Sum256([]byte("Idempotency-Key " + name))
	copy(w.ID[:], sum[:])
	if record.Lasting(w.ID) {
		w.ID[0] ^= 0xff // that is for edges
	}
	return w, nil
}

// partOf returns the writer of a part of a body that takes several puts.
func partOf(w store.WriterSeq, part int) store.WriterSeq {
	if part == 0 {
		return w
	}
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(w.ID[:], uint64(part)))
	copy(w.ID[:], sum[:])
	if record.Lasting(w.ID) {
		w.ID[0] ^= 0xff
	}
	return w
}
