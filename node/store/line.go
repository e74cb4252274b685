package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// appendLine appends a line "crc32c json".
func appendLine(dst []byte, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a line does not marshal: " + err.Error())
	}
	dst = fmt.Appendf(dst, "%08x ", crc32.Checksum(body, castagnoli))
	return append(append(dst, body...), '\n')
}

// parseLine reads into v what appendLine wrote, without the end of the line.
func parseLine(line []byte, v any) error {
	if len(line) < 10 || line[8] != ' ' {
		return errors.New("line is not \"checksum json\"")
	}
	if fmt.Sprintf("%08x", crc32.Checksum(line[9:], castagnoli)) != string(line[:8]) {
		return errors.New("checksum differs")
	}
	return json.Unmarshal(line[9:], v)
}
