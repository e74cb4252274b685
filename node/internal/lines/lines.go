// Package lines writes and reads lines "crc32c json", of which text files that must survive crashes
// are made: the manifest of a store, the catalogue of a node.
//
// It opens no files and starts no goroutines; it has no types of its own.
package lines

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends v as a line.
func Append(dst []byte, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a line does not marshal: " + err.Error())
	}
	dst = fmt.Appendf(dst, "%08x ", crc32.Checksum(body, castagnoli))
	return append(append(dst, body...), '\n')
}

// Parse reads into v what Append wrote, without the end of the line.
func Parse(line []byte, v any) error {
	if len(line) < 10 || line[8] != ' ' {
		return errors.New("line is not \"checksum json\"")
	}
	if fmt.Sprintf("%08x", crc32.Checksum(line[9:], castagnoli)) != string(line[:8]) {
		return errors.New("checksum differs")
	}
	return json.Unmarshal(line[9:], v)
}
