package rowjson

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Records returns the records of a body, each with a number. A body is a JSON array, or objects one
// after another, on one line or many. The number is that of the line where a record begins; in an
// array or a body of one line, as curl -d makes it of a file, that of the record. Both count from
// 1. A record is valid until the next one. What cannot be read is a record, too, so that it can be
// rejected with its number.
//
// Errors: of encoding/json for an array that is not JSON.
func Records(body []byte) (iter.Seq2[int, []byte], error) {
	if first := bytes.TrimSpace(body); len(first) > 0 && first[0] == '[' {
		if !json.Valid(first) {
			return nil, json.Unmarshal(first, new(json.RawMessage))
		}
		return elements(first), nil
	}
	return func(yield func(int, []byte) bool) {
		line, isOne := 1, !bytes.Contains(bytes.TrimSpace(body), []byte("\n"))
		for number := 1; ; number++ {
			var lines int
			body, lines = skipSpace(body)
			if line += lines; len(body) == 0 {
				return
			}
			size := recordEnd(body)
			at := line
			if isOne {
				at = number
			}
			if !yield(at, bytes.TrimSpace(body[:size])) {
				return
			}
			line += bytes.Count(body[:size], []byte("\n"))
			body = body[size:]
		}
	}, nil
}

// elements returns the elements of a valid array.
func elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		d := json.NewDecoder(bytes.NewReader(array))
		_, err := d.Token()
		var one json.RawMessage
		for number := 1; err == nil && d.More(); number++ {
			if err = d.Decode(&one); err == nil && !yield(number, one) {
				return
			}
		}
	}
}

// skipSpace returns what follows white space, and the number of line ends in it.
func skipSpace(src []byte) (rest []byte, lines int) {
	for i, c := range src {
		switch c {
		case '\n':
			lines++
		case ' ', '\t', '\r':
		default:
			return src[i:], lines
		}
	}
	return nil, lines
}

// recordEnd returns the size of the record at the beginning of src: an object, if white space or
// another object follows it, else the line. It reads no further than that, as a body may be one
// line of many records.
func recordEnd(src []byte) int {
	size := objectSize(src)
	if size > 0 {
		rest := bytes.TrimLeft(src[size:min(len(src), size+maxBlanks)], " \t\r")
		if len(rest) == 0 || rest[0] == '\n' || rest[0] == '{' {
			return size
		}
	}
	if end := bytes.IndexByte(src[size:], '\n'); end >= 0 {
		return size + end
	}
	return len(src)
}

// maxBlanks is how far after an object the next one is looked for; what is further away is a record
// of its own.
const maxBlanks = 64

// objectSize returns the size of the object at the beginning of src, 0 if there is none that ends.
// Only the first of its lines may begin with a brace: an object that lacks its end does not take
// the records after it with it.
func objectSize(src []byte) int {
	if src[0] != '{' {
		return 0
	}
	depth, isText, begins := 0, false, false
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case isText && c == '\\':
			i++
		case isText && c == '\n':
			return 0
		case c == '"':
			isText = !isText
		case isText:
		case c == '{' && begins:
			return 0
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		case c == '\n':
			begins = true
			continue
		case c == ' ', c == '\t', c == '\r':
			continue
		}
		if depth == 0 {
			if c == '}' {
				return i + 1
			}
			return 0
		}
		begins = false
	}
	return 0
}
