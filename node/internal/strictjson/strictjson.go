// Package strictjson reads a JSON value and refuses what encoding/json would leave aside.
//
// It owns no state and starts no goroutines. It does not read streams: a text is one value. Once
// encoding/json/v2 is part of the standard library by default, that takes its place.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Unmarshal reads a text that is one JSON value. It refuses keys that into does not have, text that
// follows the value, and a key that is twice in one object, of which encoding/json takes the last.
//
// Errors: of encoding/json; *DoubledKeyError.
func Unmarshal(src []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON value")
	}
	return CheckKeys(src)
}

// DoubledKeyError is of a key that is twice in one object.
type DoubledKeyError struct{ Key string }

// Error implements error.
func (e *DoubledKeyError) Error() string {
	return fmt.Sprintf("the key %.80q occurs twice; remove one", e.Key)
}

// CheckKeys returns a *DoubledKeyError if an object of a valid JSON text has a key twice. Upper and
// lower case are one, as both are the same field to encoding/json.
//
// Cost: linear; no allocation for objects of few keys without escapes.
func CheckKeys(src []byte) error {
	s := scans.Get().(*scan)
	defer s.giveBack()
	s.src, s.at = src, 0
	wantsKey := false // the next string is a key
	for ; s.at < len(s.src); s.at++ {
		switch s.src[s.at] {
		case '{', '[':
			wantsKey = s.src[s.at] == '{'
			s.levels = append(s.levels, level{object: wantsKey, from: len(s.keys)})
		case '}', ']':
			last := len(s.levels) - 1
			s.keys = s.keys[:s.levels[last].from]
			s.levels = s.levels[:last]
			wantsKey = false
		case ',':
			wantsKey = s.levels[len(s.levels)-1].object
		case '"':
			text := s.text()
			if wantsKey && !s.add(text) {
				return &DoubledKeyError{string(text)}
			}
			wantsKey = false
		}
	}
	return nil
}

// manyKeys is from how many keys on an object has them in a map, so that the work stays linear.
const manyKeys = 16

// scan goes through a valid JSON text.
type scan struct {
	src    []byte
	at     int
	levels []level  // objects and arrays that are open, the innermost last
	keys   [][]byte // of these, each after those of the one around it
}

var scans = sync.Pool{New: func() any { return new(scan) }}

// giveBack lets another text be scanned, and keeps nothing of this one.
func (s *scan) giveBack() {
	clear(s.keys[:cap(s.keys)])
	clear(s.levels[:cap(s.levels)])
	if s.src, s.keys, s.levels = nil, s.keys[:0], s.levels[:0]; cap(s.levels) <= manyKeys {
		scans.Put(s)
	}
}

type level struct {
	object bool
	from   int                 // where its keys begin
	many   map[string]struct{} // they, once there are manyKeys
}

// text moves to the end of the string that begins here, and returns it without escapes.
func (s *scan) text() []byte {
	from, escaped := s.at, false
	for s.at++; s.src[s.at] != '"'; s.at++ {
		if s.src[s.at] == '\\' {
			escaped = true
			s.at++
		}
	}
	if !escaped {
		return s.src[from+1 : s.at]
	}
	var plain string
	if err := json.Unmarshal(s.src[from:s.at+1], &plain); err != nil {
		panic("BUG: a string in a valid JSON text: " + err.Error())
	}
	return []byte(plain)
}

// add notes a key of the innermost object, and reports whether it is new there.
func (s *scan) add(key []byte) bool {
	l := &s.levels[len(s.levels)-1]
	if l.many == nil {
		known := s.keys[l.from:]
		for _, k := range known {
			if bytes.EqualFold(k, key) {
				return false
			}
		}
		s.keys = append(s.keys, key)
		if len(known)+1 < manyKeys {
			return true
		}
		l.many = make(map[string]struct{}, 2*manyKeys)
		for _, k := range s.keys[l.from:] {
			l.many[strings.ToLower(string(k))] = struct{}{}
		}
		return true
	}
	folded := strings.ToLower(string(key))
	_, old := l.many[folded]
	l.many[folded] = struct{}{}
	return !old
}
