package puts

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

// maxKeyBytes bounds an Idempotency-Key.
const maxKeyBytes = 256

// FormatKey is the reverse of [ParseKey] for a writer of a pool; empty for the zero writer, and for
// a persistent one, which no key names.
func FormatKey(w store.WriterSeq) string {
	if w.Persistent || w.ID == [16]byte{} {
		return ""
	}
	return fmt.Sprintf("%x/%d", w.ID, w.Seq)
}

// ParseKey parses an Idempotency-Key: NAME/NUMBER is a writer, by name or as 32 hex digits, and a
// sequence; without a number, each key is a writer with one put.
func ParseKey(key string) (w store.WriterSeq, err error) {
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
	return w, nil
}

// PartOf returns the writer of one of the puts of a large body.
func PartOf(w store.WriterSeq, part int) store.WriterSeq {
	if part == 0 {
		return w
	}
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(w.ID[:], uint64(part)))
	copy(w.ID[:], sum[:])
	return w
}
