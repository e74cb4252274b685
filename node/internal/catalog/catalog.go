// Package catalog keeps what people told a node and what is not records: which plugins there are,
// in which versions, and what is measured under which moid. All that happens to it is a [Change],
// and the same changes in the same order make the same [State], on any machine.
//
// It knows nothing of modules but their digests. A [File] keeps changes durably; the package starts
// no goroutines, and its types are not safe for concurrent use.
package catalog

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// Limits of a catalogue.
const (
	MaxVersions         = 4096 // of all plugins: each is a file of at most 4 MiB
	MaxQuantities       = 4096
	MaxOwnerBytes       = 64
	MaxDescriptionBytes = 1024
)

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Version is a module under a name.
type Version struct {
	SHA256      string `json:"sha256"` // 64 hex digits
	Bytes       int64  `json:"bytes"`
	Owner       string `json:"owner,omitempty"`
	Description string `json:"description,omitempty"`
	UploadedNs  int64  `json:"uploaded_ns"`
}

// Plugin is a name and its versions, the newest upload last.
type Plugin struct {
	Versions []Version
	Current  int // index of the version that the name alone means
}

// Ref names a version of a plugin, or with an empty digest all of them.
type Ref struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitempty"`
}

// Push adds a version and makes it current. One that is there already becomes the newest.
type Push struct {
	Name string `json:"name"`
	Version
}

// Change is one change of the state. One member is set.
type Change struct {
	Push    *Push `json:"push,omitempty"`
	Promote *Ref  `json:"promote,omitempty"` // makes a version current
	Remove  *Ref  `json:"remove,omitempty"`

	Quantity *plugin.Quantity `json:"quantity,omitempty"` // in place of one with its moid
	Forget   *int32           `json:"forget,omitempty"`   // the quantity with this moid
}

// State is what a catalogue says. The zero value says nothing.
type State struct {
	Plugins    map[string]Plugin
	Quantities map[int32]plugin.Quantity
}

// Errors that a change may be refused with.
var (
	ErrUnknown = errors.New("is not in the catalogue")
	ErrCurrent = errors.New("is the current version; promote another one first, or remove all")
	ErrFull    = fmt.Errorf("%d versions are the most that a catalogue holds; remove some",
		MaxVersions)
	ErrFullQuantities = fmt.Errorf("%d quantities are the most that a catalogue holds",
		MaxQuantities)
)

// Check returns what Apply would return, without a change.
func (s *State) Check(c *Change) error {
	set := 0
	for _, is := range []bool{c.Push != nil, c.Promote != nil, c.Remove != nil,
		c.Quantity != nil, c.Forget != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("a change has %d members, want one", set)
	case c.Push != nil:
		return s.checkPush(c.Push)
	case c.Promote != nil:
		_, err := s.index(c.Promote)
		return err
	case c.Quantity != nil:
		_, known := s.Quantities[c.Quantity.MOID]
		if !known && len(s.Quantities) >= MaxQuantities {
			return ErrFullQuantities
		}
		return c.Quantity.Check()
	case c.Forget != nil:
		if _, known := s.Quantities[*c.Forget]; !known {
			return fmt.Errorf("quantity %d %w", *c.Forget, ErrUnknown)
		}
		return nil
	}
	p, ok := s.Plugins[c.Remove.Name]
	if c.Remove.SHA256 == "" && !ok {
		return fmt.Errorf("plugin %q %w", c.Remove.Name, ErrUnknown)
	}
	if c.Remove.SHA256 == "" {
		return nil
	}
	i, err := s.index(c.Remove)
	if err == nil && i == p.Current && len(p.Versions) > 1 {
		err = fmt.Errorf("version %.12s of plugin %q %w", c.Remove.SHA256, c.Remove.Name,
			ErrCurrent)
	}
	return err
}

func (s *State) checkPush(p *Push) error {
	switch {
	case !record.ValidPluginName(p.Name):
		return fmt.Errorf("%q is no name of a plugin", p.Name)
	case !digestForm.MatchString(p.SHA256):
		return fmt.Errorf("plugin %q: %q is no digest", p.Name, p.SHA256)
	case p.Bytes <= 0:
		return fmt.Errorf("plugin %q: %d bytes", p.Name, p.Bytes)
	}
	if err := CheckText("owner", p.Owner, MaxOwnerBytes); err != nil {
		return err
	}
	if err := CheckText("description", p.Description, MaxDescriptionBytes); err != nil {
		return err
	}
	count := 0
	for _, plugin := range s.Plugins {
		count += len(plugin.Versions)
	}
	if _, err := s.index(&Ref{p.Name, p.SHA256}); err != nil && count >= MaxVersions {
		return ErrFull
	}
	return nil
}

// Valid refuses what no changes make of an empty state.
func (s *State) Valid() error {
	count := 0
	for name, p := range s.Plugins {
		if p.Current < 0 || p.Current >= len(p.Versions) {
			return fmt.Errorf("plugin %q: version %d of %d is current", name, p.Current,
				len(p.Versions))
		}
		digests := map[string]bool{}
		for _, v := range p.Versions {
			if err := new(State).checkPush(&Push{name, v}); err != nil {
				return err
			}
			digests[v.SHA256] = true
		}
		if len(digests) != len(p.Versions) {
			return fmt.Errorf("plugin %q has a version twice", name)
		}
		count += len(p.Versions)
	}
	if count > MaxVersions {
		return ErrFull
	}
	if len(s.Quantities) > MaxQuantities {
		return ErrFullQuantities
	}
	for moid, q := range s.Quantities {
		if moid != q.MOID {
			return fmt.Errorf("quantity %d stands under %d", q.MOID, moid)
		}
		if err := q.Check(); err != nil {
			return err
		}
	}
	return nil
}

// CheckText refuses text that does not fit one line of a terminal's table.
func CheckText(what, text string, most int) error {
	switch {
	case len(text) > most || !utf8.ValidString(text):
		return fmt.Errorf("%s has %d bytes, want at most %d of UTF-8", what, len(text), most)
	case !plugin.OneLine(text):
		return fmt.Errorf("%s %q has a character that cannot be shown on one line", what, text)
	}
	return nil
}

// index returns where a version stands.
func (s *State) index(r *Ref) (int, error) {
	i := slices.IndexFunc(s.Plugins[r.Name].Versions,
		func(v Version) bool { return v.SHA256 == r.SHA256 })
	if i < 0 {
		return 0, fmt.Errorf("version %.12s of plugin %q %w", r.SHA256, r.Name, ErrUnknown)
	}
	return i, nil
}

// Apply makes a change, or refuses it and leaves the state as it was. Slices and maps that were
// taken from the state before stay as they are.
func (s *State) Apply(c *Change) error {
	if err := s.Check(c); err != nil {
		return err
	}
	if c.Quantity != nil || c.Forget != nil {
		s.applyQuantity(c)
		return nil
	}
	plugins := maps.Clone(s.Plugins)
	if plugins == nil {
		plugins = map[string]Plugin{}
	}
	switch {
	case c.Push != nil:
		plugins[c.Push.Name] = pushed(plugins[c.Push.Name], c.Push.Version)
	case c.Promote != nil:
		p := plugins[c.Promote.Name]
		p.Current, _ = s.index(c.Promote)
		plugins[c.Promote.Name] = p
	default:
		p := plugins[c.Remove.Name]
		if c.Remove.SHA256 == "" || len(p.Versions) == 1 {
			delete(plugins, c.Remove.Name)
			break
		}
		i, _ := s.index(c.Remove)
		p.Versions = slices.Delete(slices.Clone(p.Versions), i, i+1)
		if p.Current > i {
			p.Current--
		}
		plugins[c.Remove.Name] = p
	}
	s.Plugins = plugins
	return nil
}

func (s *State) applyQuantity(c *Change) {
	quantities := maps.Clone(s.Quantities)
	if quantities == nil {
		quantities = map[int32]plugin.Quantity{}
	}
	if c.Quantity != nil {
		quantities[c.Quantity.MOID] = *c.Quantity
	} else {
		delete(quantities, *c.Forget)
	}
	s.Quantities = quantities
}

func pushed(p Plugin, v Version) Plugin {
	p.Versions = slices.DeleteFunc(slices.Clone(p.Versions),
		func(old Version) bool { return old.SHA256 == v.SHA256 })
	p.Versions = append(p.Versions, v)
	p.Current = len(p.Versions) - 1
	return p
}

// Refers reports whether any version has a digest.
func (s *State) Refers(sha256 string) bool {
	for _, p := range s.Plugins {
		if slices.ContainsFunc(p.Versions, func(v Version) bool { return v.SHA256 == sha256 }) {
			return true
		}
	}
	return false
}

// Changes returns changes that make this state of an empty one.
func (s *State) Changes() []Change {
	var out []Change
	for _, name := range slices.Sorted(maps.Keys(s.Plugins)) {
		p := s.Plugins[name]
		for _, v := range p.Versions {
			out = append(out, Change{Push: &Push{Name: name, Version: v}})
		}
		if p.Current != len(p.Versions)-1 {
			out = append(out, Change{Promote: &Ref{name, p.Versions[p.Current].SHA256}})
		}
	}
	for _, q := range s.Sorted() {
		out = append(out, Change{Quantity: &q})
	}
	return out
}

// Sorted returns the quantities by moid.
func (s *State) Sorted() []plugin.Quantity {
	out := make([]plugin.Quantity, 0, len(s.Quantities))
	for _, moid := range slices.Sorted(maps.Keys(s.Quantities)) {
		out = append(out, s.Quantities[moid])
	}
	return out
}
