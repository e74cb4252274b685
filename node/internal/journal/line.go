package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/sdk/crc32c"
)

// AppendLine appends v as a line "crc32c json".
func AppendLine(dst []byte, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a line does not marshal: " + err.Error())
	}
	dst = fmt.Appendf(dst, "%08x ", crc32c.Sum(body))
	return append(append(dst, body...), '\n')
}

// ParseLine reads into v what AppendLine wrote, without the end of the line.
func ParseLine(line []byte, v any) error {
	if len(line) < 10 || line[8] != ' ' {
		return errors.New("line is not \"checksum json\"")
	}
	if fmt.Sprintf("%08x", crc32c.Sum(line[9:])) != string(line[:8]) {
		return errors.New("checksum differs")
	}
	return json.Unmarshal(line[9:], v)
}

// Count is how many lines of a file are durable, as its first line says it: always of one width, so
// that it can be written over. Empty: the file does not say.
type Count string

// CountOf returns the count of n lines.
func CountOf(n int) Count { return Count(fmt.Sprintf("%012d", n)) }

// lost says what is wrong with a file that has fewer lines than its first line counts, if anything.
func (c Count) lost(have int) error {
	n, err := strconv.Atoi(string(c))
	switch {
	case c == "" || err == nil && have >= n:
		return nil
	case err != nil || CountOf(n) != c:
		return fmt.Errorf("its first line counts %.20q lines", string(c))
	}
	return fmt.Errorf("it ends with line %d and had %d lines: its end is missing", have, n)
}

// torn reports whether a file that holds no line at an offset, where there must be one, ends there
// with what a loss of power leaves of a line that was being appended: the line has no end, or a
// sector of it is zero, which was never written. Anything else was written whole and is damaged: no
// single flipped bit makes a line torn.
func torn(data []byte, at int) bool {
	rest := data[at:]
	end := bytes.IndexByte(rest, '\n')
	if end >= 0 && end != len(rest)-1 || len(rest) == 0 {
		return false // more lines follow, and each was synced before the next one was written
	}
	for from := at; from < len(data); {
		to := min(len(data), (from/sector.Size+1)*sector.Size)
		if sector.IsZero(data[from:to]) {
			return true
		}
		from = to
	}
	var line json.RawMessage // all of a line but its end, of which a bit is flipped
	return end < 0 && ParseLine(rest[:len(rest)-1], &line) != nil
}
