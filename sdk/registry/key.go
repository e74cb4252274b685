package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Key names what devices are grouped by: one of the keys of selectors, or the first levels of the
// path of groups.
type Key struct {
	name  string
	level int // of a group, from 1 on; 0: the whole path
}

// ParseKey reads a key: name, type, group, alt, retired, the key of an attribute, or group[2] for
// the path of groups down to its second level.
func ParseKey(text string) (Key, error) {
	if inner, ok := strings.CutPrefix(text, KeyGroup+"["); ok {
		digits, closed := strings.CutSuffix(inner, "]")
		level, err := strconv.Atoi(digits)
		if !closed || err != nil || level < 1 || level > MaxLevels || digits[0] == '+' {
			return Key{}, fmt.Errorf("%q is not a level of groups; write group[1] to group[%d], "+
				"or group for the whole path", excerpt.Of(text, 40), MaxLevels)
		}
		return Key{KeyGroup, level}, nil
	}
	if fixedKey(text) {
		return Key{name: text}, nil
	}
	if err := CheckKey(text); err != nil {
		return Key{}, err
	}
	switch text {
	case "cid", "moid", "cap", "cap_ns", "acq", "records", "result", "start", "start_ns", "hours":
		return Key{}, errors.New("the attribute " + text + " is not one to group by, as groups " +
			"have a member of that name; call it e.g. " + text + "_")
	}
	return Key{name: text}, nil
}

// String returns the key as [ParseKey] reads it.
func (k Key) String() string {
	if k.level > 0 {
		return fmt.Sprintf("%s[%d]", k.name, k.level)
	}
	return k.name
}

// Name returns the key of selectors: of group[2] that is group.
func (k Key) Name() string { return k.name }

// Of returns what a description has for the key. A group of fewer levels has none.
func (k Key) Of(d *Description) (v Value, ok bool) {
	if v, ok = d.Value(k.name); !ok {
		return Value{}, false
	}
	return k.Cut(v)
}

// Cut returns what the key makes of the value of its name: of a path its first levels.
func (k Key) Cut(v Value) (_ Value, ok bool) {
	if k.level == 0 {
		return v, true
	}
	end := 0
	for range k.level {
		if end > len(v.text) {
			return Value{}, false
		}
		i := strings.IndexByte(v.text[end:], '/')
		if i < 0 {
			i = len(v.text) - end
		}
		end += i + 1
	}
	return Text(v.text[:end-1]), true
}

// MaxKeys is how many keys devices are grouped by at most.
const MaxKeys = 8

// Keys are several keys that devices are grouped by, each once.
type Keys []Key

// ParseKeys reads keys as [ParseKey] does, separated by commas.
func ParseKeys(text string) (keys Keys, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if len(keys) == MaxKeys {
			return nil, fmt.Errorf("%q has more than %d keys", excerpt.Of(text, 40), MaxKeys)
		}
		k, err := ParseKey(part)
		if err != nil {
			return nil, err
		}
		if slices.Contains(keys, k) {
			return nil, fmt.Errorf("%q has %s twice", excerpt.Of(text, 40), k)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// AppendKey adds a key to the text of keys, which may be empty, and checks them.
func AppendKey(keys, key string) (string, error) {
	if keys != "" {
		key = keys + "," + key
	}
	_, err := ParseKeys(key)
	return key, err
}

// KeyNames returns the keys of a text that [ParseKeys] has read, of an empty one none.
func KeyNames(keys string) []string {
	if keys == "" {
		return nil
	}
	return strings.Split(keys, ",")
}

// CompareValues orders what devices have for several keys: by the first that differs.
func CompareValues(a, b []Value) int { return slices.CompareFunc(a, b, Value.Compare) }

// severalValues is in place of a kind where there are several values.
const severalValues = 9

// AppendValues appends what a device has for its keys: of one key as [AppendValue] does, of several
// the kind 9 and their number, a byte each, before them.
func AppendValues(dst []byte, values []Value) []byte {
	if len(values) != 1 {
		dst = append(dst, severalValues, byte(len(values)))
	}
	for _, v := range values {
		dst = AppendValue(dst, v)
	}
	return dst
}

// ParseValuesBytes reads what [AppendValues] wrote from the start of src, which it does not keep.
func ParseValuesBytes(src []byte) (values []Value, rest []byte, err error) {
	count := 1
	if len(src) > 1 && src[0] == severalValues {
		if count = int(src[1]); count < 2 || count > MaxKeys {
			return nil, nil, fmt.Errorf("%d values, not 2 to %d", count, MaxKeys)
		}
		src = src[2:]
	}
	values = make([]Value, count)
	for i := range values {
		if values[i], src, err = ParseValueBytes(src); err != nil {
			return nil, nil, err
		}
	}
	return values, src, nil
}

// Compare orders values: none, booleans, numbers, texts.
func (v Value) Compare(o Value) int {
	return cmp.Or(cmp.Compare(v.rank(), o.rank()), cmp.Compare(v.number, o.number),
		strings.Compare(v.text, o.text))
}

func (v Value) rank() int {
	switch v.kind {
	case KindBool:
		return 1
	case KindNumber:
		return 2
	case KindText:
		return 3
	}
	return 0
}

// AppendValue appends a value as descriptions have it: its kind, 1 byte, and its content. The zero
// value is a kind of 0.
func AppendValue(dst []byte, v Value) []byte {
	if v.kind == 0 {
		return append(dst, 0)
	}
	return v.append(dst)
}

// ParseValueBytes reads what [AppendValue] wrote from the start of src, which it does not keep.
func ParseValueBytes(src []byte) (v Value, rest []byte, err error) {
	switch {
	case len(src) == 0:
		return v, nil, errors.New("the value ends early")
	case src[0] == 0:
		return v, src[1:], nil
	}
	if v, rest, err = parseValue(Kind(src[0]), src[1:]); err == nil {
		err = v.check("")
	}
	return v, rest, err
}
