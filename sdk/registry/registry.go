// Package registry describes devices, and selects some by what is said of them.
//
// It owns the form of a description ([Description]), the bytes of it that a record has as payload
// ([Append], [Parse]), and the language of selectors ([ParseSelector]). A description is a record:
// its mid is the device, its moid record.DescriptionMOID, its cap the time from which it holds. A
// device that gets another name or place, that is retired or replaced, gets a newer one. The
// package knows nothing of records, stores, indexes or the network, and starts no goroutines.
package registry

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Limits of a description. They bound what an index keeps of a device, and what a decoder takes.
const (
	MaxBytes      = 64 << 10 // of a description as payload
	MaxAttributes = 1000
	MaxTextBytes  = 256 // of a name, a type, a group, and an attribute's text
	MaxKeyBytes   = 64  // of an attribute's key
	MaxLevels     = 16  // of a group
)

// Description is what is known of a device, all of it optional.
type Description struct {
	Name string // that the device has in its tenant
	Type string // e.g. thermometer
	// Group is a path, e.g. oulu/building-7/floor-3.
	Group string
	Place *Place
	// Attributes are by key; the keys of the language of selectors are no keys of attributes.
	Attributes map[string]Value
	Metadata   string // UTF-8 of any form, which selectors do not see
	Retired    bool
	// Replaces is the device in whose place this one came, ReplacedBy the one that came in its
	// place; 0 if there is none.
	Replaces, ReplacedBy int64
}

// Place is a place on the earth: latitude and longitude in degrees north and east, altitude in
// metres if HasAlt.
type Place struct {
	Lat, Lon, Alt float64
	HasAlt        bool
}

// Kind is the type of a value.
type Kind uint8

// Kinds of values; the numbers are those of the encoding.
const (
	KindText   Kind = 1
	KindNumber Kind = 2
	KindBool   Kind = 3
)

// Value is a text, a number or a boolean: values compare equal that have the same kind and content.
// The zero value is none.
type Value struct {
	kind   Kind
	text   string
	number float64 // of a boolean 0 or 1
}

// Text returns a value that is a text.
func Text(text string) Value { return Value{kind: KindText, text: text} }

// Number returns a value that is a number. Negative zero is zero.
func Number(n float64) Value { return Value{kind: KindNumber, number: n + 0} }

// Bool returns a value that is a boolean.
func Bool(is bool) Value {
	v := Value{kind: KindBool}
	if is {
		v.number = 1
	}
	return v
}

// Kind returns the type of the value, 0 of the zero value.
func (v Value) Kind() Kind { return v.kind }

// Text returns the text, empty for other kinds.
func (v Value) Text() string { return v.text }

// Number returns the number, of a boolean 0 or 1, 0 for texts.
func (v Value) Number() float64 { return v.number }

// Keys of what is not an attribute, in selectors.
const (
	KeyName    = "name"
	KeyType    = "type"
	KeyGroup   = "group"
	KeyAlt     = "alt"
	KeyRetired = "retired"
)

// KeyConnection is the attribute that devices share which came in each other's place, as meters
// after an exchange. Of a device without it the key means its name.
const KeyConnection = "connection"

// Value returns what a key of a selector means: a field of the description, or an attribute.
func (d *Description) Value(key string) (v Value, ok bool) {
	switch key {
	case KeyName:
		return Text(d.Name), d.Name != ""
	case KeyType:
		return Text(d.Type), d.Type != ""
	case KeyGroup:
		return Text(d.Group), d.Group != ""
	case KeyRetired:
		return Bool(d.Retired), true
	case KeyAlt:
		if d.Place == nil || !d.Place.HasAlt {
			return Value{}, false
		}
		return Number(d.Place.Alt), true
	}
	if v, ok = d.Attributes[key]; !ok && key == KeyConnection {
		return d.Value(KeyName)
	}
	return v, ok
}

// Check reports what is wrong with a description. Names, types, groups and keys must be such that
// two that look alike are the same.
func (d *Description) Check() error {
	if d.Name != "" {
		if err := CheckName(d.Name); err != nil {
			return err
		}
	}
	for _, key := range []string{"metadata", "replaces", "replaced_by"} {
		if _, ok := d.Attributes[key]; ok {
			return fmt.Errorf("%q is a part of descriptions and not a key of attributes; call it "+
				"e.g. %s_, or set that part", key, key)
		}
	}
	return d.check()
}

// check is Check of what may have been stored before that had all its rules.
func (d *Description) check() error {
	for _, t := range []struct{ what, text string }{{KeyName, d.Name}, {KeyType, d.Type}} {
		if err := checkName(t.what, t.text); err != nil {
			return err
		}
	}
	if err := checkGroup(d.Group); err != nil {
		return err
	}
	if err := d.Place.check(); err != nil {
		return err
	}
	if len(d.Attributes) > MaxAttributes {
		return fmt.Errorf("%d attributes, at most %d", len(d.Attributes), MaxAttributes)
	}
	for key, v := range d.Attributes {
		if err := CheckKey(key); err != nil {
			return err
		}
		if err := v.check(key); err != nil {
			return err
		}
	}
	if !utf8.ValidString(d.Metadata) {
		return fmt.Errorf("the metadata %q is not UTF-8", excerpt.Of(d.Metadata, 80))
	}
	if n := d.size(); n > MaxBytes {
		return fmt.Errorf("the description has %d bytes, at most %d", n, MaxBytes)
	}
	return nil
}

func (v Value) check(key string) error {
	switch v.kind {
	case KindText:
		if !plain(v.text) || len(v.text) > MaxTextBytes {
			return checkText("the attribute "+key, v.text)
		}
	case KindNumber:
		if math.IsNaN(v.number) || math.IsInf(v.number, 0) {
			return fmt.Errorf("the attribute %s is %v, which is not a finite number", key, v.number)
		}
	case KindBool:
	default:
		return fmt.Errorf("the attribute %s has no value", key)
	}
	return nil
}

func (p *Place) check() error {
	switch {
	case p == nil:
		return nil
	case !(p.Lat >= -90 && p.Lat <= 90):
		return fmt.Errorf("the latitude %v is not of -90 to 90 degrees", p.Lat)
	case !(p.Lon >= -180 && p.Lon <= 180):
		return fmt.Errorf("the longitude %v is not of -180 to 180 degrees", p.Lon)
	case math.IsNaN(p.Alt) || math.IsInf(p.Alt, 0):
		return fmt.Errorf("the altitude %v is not a number of metres", p.Alt)
	case !p.HasAlt && p.Alt != 0:
		return fmt.Errorf("the altitude %v is given, and that there is none", p.Alt)
	}
	return nil
}

// CheckKey reports why a text is not a key of attributes: these are names as of variables, with
// - and . in them, and none of the words of selectors.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return fmt.Errorf("the key %q of an attribute has %d bytes, not 1 to %d",
			excerpt.Of(key, 40), len(key), MaxKeyBytes)
	}
	for i, c := range []byte(key) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '-' || c == '.')) {
			return fmt.Errorf("the key %q of an attribute: a letter or _ of ASCII, then "+
				"letters, digits and the signs . _ -", key)
		}
	}
	if fixedKey(key) || reservedWord(key) {
		return fmt.Errorf("%q is a word of selectors and not a key of attributes; call it "+
			"e.g. %s_", key, key)
	}
	return nil
}

func fixedKey(key string) bool {
	switch key {
	case KeyName, KeyType, KeyGroup, KeyAlt, KeyRetired:
		return true
	}
	return false
}

// reservedWord reports whether a word means something in selectors, or may in a later version.
func reservedWord(word string) bool {
	switch word {
	case "and", "or", "not", "in", "within", "near", "true", "false", "mid", "lat", "lon", "place",
		"has":
		return true
	}
	return false
}

func checkGroup(group string) error {
	if group == "" {
		return nil
	}
	if err := checkName(KeyGroup, group); err != nil {
		return err
	}
	if n := strings.Count(group, "/") + 1; n > MaxLevels {
		return fmt.Errorf("the group %q has %d levels, at most %d", excerpt.Of(group, 80), n,
			MaxLevels)
	}
	for level := range strings.SplitSeq(group, "/") {
		if level == "" || level == "." || level == ".." || strings.TrimSpace(level) != level {
			return fmt.Errorf("the group %q has the level %q; write a path, e.g. "+
				"oulu/building-7/floor-3", group, level)
		}
	}
	return nil
}

// plain reports whether a text has printable characters of ASCII only.
func plain(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// checkText reports why a text is none that people can read and write.
func checkText(what, text string) error {
	switch {
	case len(text) > MaxTextBytes:
		return fmt.Errorf("%s %q has %d bytes, at most %d", what, excerpt.Of(text, 40), len(text),
			MaxTextBytes)
	case plain(text):
		return nil
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not UTF-8", what, excerpt.Of(text, 80))
	}
	for _, r := range text {
		if !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Variation_Selector) || r == '\u2800' {
			return fmt.Errorf("%s %q has the character %U, which is not printable", what,
				excerpt.Of(text, 80), r)
		}
	}
	return nil
}

// String returns the value as selectors have it, e.g. 2.5, true or acme gmbh.
func (v Value) String() string {
	switch v.kind {
	case KindNumber:
		return formatNumber(v.number)
	case KindBool:
		return strconv.FormatBool(v.number == 1)
	}
	return v.text
}

// ParseValue returns what a text means as a value: a number or a boolean if it spells one, else a
// text, which may be in double quotes. What a number would not keep is a text: zeros or a plus in
// front, as of codes and of telephones, and digits beyond 2^53.
func ParseValue(text string) Value {
	if inner, ok := strings.CutPrefix(text, `"`); ok && strings.HasSuffix(inner, `"`) {
		return Text(inner[:len(inner)-1])
	}
	digits := strings.TrimPrefix(text, "-")
	if strings.HasPrefix(text, "+") || len(digits) > 1 && digits[0] == '0' &&
		digits[1] >= '0' && digits[1] <= '9' {
		return Text(text)
	}
	all := Literal{Text: text}.Meanings()
	return all[len(all)-1]
}

// ParseNumber reads the value of an attribute that is written as a number, which must keep it.
func ParseNumber(key, text string) (Value, error) {
	n, ok := parseNumber(text)
	if !ok {
		return Value{}, fmt.Errorf("the attribute %s is %s, which is not a finite number, or has "+
			"more digits than one keeps; write it as a text, in double quotes",
			excerpt.Of(key, MaxKeyBytes), excerpt.Of(text, 40))
	}
	return Number(n), nil
}
