package check

import (
	"bytes"
	"errors"
	"math"

	"github.com/pentad-db/pentad/node/internal/journal"
)

// Position is how far a pass of the search for damage is: all of the segments with smaller ids, and
// blocks of the next one.
type Position struct {
	Segment uint64 `json:"segment"`
	Block   int    `json:"block"`
	Bytes   int64  `json:"bytes"` // read in this pass
	BeganNs int64  `json:"began_ns"`
	LastNs  int64  `json:"last_ns"` // when the pass before ended; 0: none has
	// Damaged are the segments whose damage is known. They are read first after a start, so that
	// it stays known.
	Damaged []uint64 `json:"damaged,omitempty"`
}

// ParsePosition reads the file SCRUB, one line "crc32c json".
func ParsePosition(text []byte) (p Position, err error) {
	line, whole := bytes.CutSuffix(text, []byte("\n"))
	if !whole {
		return p, errors.New("the line does not end")
	}
	if err := journal.ParseLine(line, &p); err != nil {
		return p, err
	}
	if p.Block < 0 || p.Bytes < 0 || p.Segment == math.MaxUint64 {
		return p, errors.New("it is not a position of the scrub")
	}
	return p, nil
}
