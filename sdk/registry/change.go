package registry

import (
	"bytes"
	"maps"
	"strings"
)

// Change is what becomes of a description. What is nil stays as it was; an empty text, and a
// value that is none, remove what was known.
type Change struct {
	Type, Group, Metadata *string
	// Place is the new place; NoPlace removes that which was known.
	Place   *Place
	NoPlace bool
	Retired *bool
	// Attributes are set by key; the zero Value removes one.
	Attributes map[string]Value
	// Whole says that what the change does not name is not known from then on: it stays only which
	// device replaces which.
	Whole bool
}

// Apply makes the change. It copies the attributes that it changes, and keeps those of the change.
func (c *Change) Apply(d *Description) {
	if c.Whole {
		*d = Description{Name: d.Name, Replaces: d.Replaces, ReplacedBy: d.ReplacedBy}
	}
	for _, t := range []struct {
		to  *string
		set *string
	}{{&d.Type, c.Type}, {&d.Metadata, c.Metadata}} {
		if t.set != nil {
			*t.to = *t.set
		}
	}
	if c.Group != nil {
		d.Group = strings.TrimSuffix(*c.Group, "/")
	}
	if c.Retired != nil {
		d.Retired = *c.Retired
	}
	if c.Place != nil || c.NoPlace {
		d.Place = c.Place
	}
	if len(c.Attributes) == 0 {
		return
	}
	d.Attributes = maps.Clone(d.Attributes)
	if d.Attributes == nil {
		d.Attributes = make(map[string]Value, len(c.Attributes))
	}
	for key, v := range c.Attributes {
		if v == (Value{}) {
			delete(d.Attributes, key)
		} else {
			d.Attributes[key] = v
		}
	}
}

// Check reports what is wrong with a change of a device that has a name: what [Description.Check]
// says of a device that is described by it alone. A key that is removed must be one, too.
func (c *Change) Check(name string) error {
	for key := range c.Attributes {
		if err := CheckKey(key); err != nil {
			return err
		}
	}
	d := Description{Name: name}
	c.Apply(&d)
	return d.Check()
}

// Equal reports whether two descriptions say the same.
func Equal(a, b *Description) bool {
	x, errX := Append(nil, a)
	y, errY := Append(nil, b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Plain returns the value as a string, a float64 or a bool; nil for none.
func (v Value) Plain() any {
	switch v.kind {
	case KindText:
		return v.text
	case KindNumber:
		return v.number
	case KindBool:
		return v.number == 1
	}
	return nil
}
