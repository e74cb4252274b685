package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// Limits of fields that are read; what the packages of catalogues and cursors allow is less.
const (
	maxModuleBytes = 4 << 20 // as wasmhost's largest
	maxNameBytes   = 256
	maxTextBytes   = 4096
	maxFields      = 256 // of a quantity
)

// ChangeCatalog is a change of the catalogue. A push brings its module along, so that a node that
// has the state has every module that it names.
type ChangeCatalog struct {
	catalog.Change
	Module []byte // of a push
}

// CommitCursor makes a cursor or moves it; back only by force.
type CommitCursor struct {
	cursors.Cursor
	Force bool
}

// DropCursor forgets a cursor.
type DropCursor struct{ Name string }

func (*ChangeCatalog) kind() uint8 { return commandChangeCatalog }
func (*CommitCursor) kind() uint8  { return commandCommitCursor }
func (*DropCursor) kind() uint8    { return commandDropCursor }

// What a change of the catalogue does: append only.
const (
	changePush     = 1
	changePromote  = 2
	changeRemove   = 3
	changeQuantity = 4
	changeForget   = 5
	changeRegister = 6 // a quantity with a modulus
)

func (x *ChangeCatalog) what() uint8 {
	switch {
	case x.Push != nil:
		return changePush
	case x.Promote != nil:
		return changePromote
	case x.Remove != nil:
		return changeRemove
	case x.Quantity != nil && x.Quantity.Modulus != 0:
		return changeRegister
	case x.Quantity != nil:
		return changeQuantity
	}
	return changeForget
}

func (x *ChangeCatalog) fields(c *coder) {
	what := x.what()
	number(c, &what)
	if c.reading {
		x.Change = catalog.Change{}
	}
	switch what {
	case changePush:
		x.pushFields(c)
	case changePromote:
		refFields(c, &x.Promote)
	case changeRemove:
		refFields(c, &x.Remove)
	case changeQuantity, changeRegister:
		if c.reading {
			x.Quantity = new(plugin.Quantity)
		}
		quantityFields(c, x.Quantity)
		if what == changeRegister {
			modulusField(c, x.Quantity)
		}
	case changeForget:
		if c.reading {
			x.Forget = new(int32)
		}
		signed(c, x.Forget)
	default:
		c.fail("there is no change %d of a catalogue", what)
	}
}

// pushFields are those of a push: digest and size follow from the module.
func (x *ChangeCatalog) pushFields(c *coder) {
	if c.reading {
		x.Push = new(catalog.Push)
	}
	c.text(&x.Push.Name, maxNameBytes)
	c.text(&x.Push.Owner, maxTextBytes)
	c.text(&x.Push.Description, maxTextBytes)
	signed(c, &x.Push.UploadedNs)
	c.bytes(&x.Module, maxModuleBytes)
	if c.reading {
		x.Push.SHA256, x.Push.Bytes = digestOf(x.Module), int64(len(x.Module))
	}
}

func digestOf(module []byte) string {
	digest := sha256.Sum256(module)
	return hex.EncodeToString(digest[:])
}

func refFields(c *coder, r **catalog.Ref) {
	if c.reading {
		*r = new(catalog.Ref)
	}
	c.text(&(*r).Name, maxNameBytes)
	c.text(&(*r).SHA256, maxNameBytes)
}

func quantityFields(c *coder, q *plugin.Quantity) {
	signed(c, &q.MOID)
	c.text(&q.Name, maxTextBytes)
	c.text(&q.Unit, maxTextBytes)
	c.text(&q.Type, maxNameBytes)
	list(c, &q.Fields, maxFields, func(f *plugin.QuantityField) {
		c.text(&f.Name, maxTextBytes)
		c.text(&f.Type, maxNameBytes)
		number(c, &f.Offset)
	})
}

// modulusField is that of a quantity that has one.
func modulusField(c *coder, q *plugin.Quantity) {
	bits := math.Float64bits(q.Modulus)
	number(c, &bits)
	if q.Modulus = math.Float64frombits(bits); q.Modulus == 0 {
		c.fail("a modulus of 0 where there is one")
	}
}

func cursorFields(c *coder, x *cursors.Cursor) {
	c.text(&x.Name, maxNameBytes)
	signed(c, &x.AcqNs)
	signed(c, &x.CommittedNs)
}

// What the last number of a commit says. Those without a question end with it.
const (
	commitForced   = 1
	commitQuestion = 2
)

func (x *CommitCursor) fields(c *coder) {
	cursorFields(c, &x.Cursor)
	var what uint8
	if x.Force {
		what |= commitForced
	}
	if x.Question != "" {
		what |= commitQuestion
	}
	if number(c, &what); what > commitForced|commitQuestion {
		c.fail("%d where 0 to 3 is wanted", what)
	}
	if x.Force = what&commitForced != 0; what&commitQuestion != 0 {
		questionField(c, &x.Cursor)
	}
}

// questionField is that of a cursor that has one.
func questionField(c *coder, x *cursors.Cursor) {
	if c.text(&x.Question, maxNameBytes); x.Question == "" {
		c.fail("a cursor has an empty question")
	}
}

// laterFields writes or reads what later programs have added to quantities and cursors, behind all
// else and only if there is any: so states of earlier ones are read as they are.
func (s *State) laterFields(c *coder) {
	moduli, questions := map[int32]plugin.Quantity{}, map[string]cursors.Cursor{}
	if c.reading && len(c.src) == 0 {
		return
	}
	if !c.reading {
		moduli, questions = maps.Clone(s.catalog.Quantities), maps.Clone(s.cursors)
		maps.DeleteFunc(moduli, func(_ int32, q plugin.Quantity) bool { return q.Modulus == 0 })
		maps.DeleteFunc(questions, func(_ string, x cursors.Cursor) bool {
			return x.Question == ""
		})
		if len(moduli)+len(questions) == 0 {
			return
		}
	}
	mapped(c, moduli, catalog.MaxQuantities, cmp.Compare,
		func(moid *int32, q *plugin.Quantity) {
			signed(c, moid)
			modulusField(c, q)
			if declared, known := s.catalog.Quantities[*moid]; known && c.reading {
				declared.Modulus = q.Modulus
				s.catalog.Quantities[*moid] = declared
			} else if !known {
				c.fail("a modulus of quantity %d, which is not declared", *moid)
			}
		})
	mapped(c, questions, cursors.Max, strings.Compare,
		func(name *string, x *cursors.Cursor) {
			c.text(name, maxNameBytes)
			questionField(c, x)
			if kept, known := s.cursors[*name]; known && c.reading {
				kept.Question = x.Question
				s.cursors[*name] = kept
			} else if !known {
				c.fail("a question of cursor %.80q, which is not there", *name)
			}
		})
	if len(moduli)+len(questions) == 0 {
		c.fail("neither moduli nor questions where there are some")
	}
}

func (x *DropCursor) fields(c *coder) { c.text(&x.Name, maxNameBytes) }

// check finds what is wrong whatever the catalogue has.
func (x *ChangeCatalog) check() error {
	set := 0
	for _, is := range []bool{x.Push != nil, x.Promote != nil, x.Remove != nil, x.Quantity != nil,
		x.Forget != nil} {
		set += count(is)
	}
	if set != 1 {
		return fmt.Errorf("a change of the catalogue has %d members, want one", set)
	}
	if x.Push == nil {
		return nil // the catalogue says what it does not want
	}
	if len(x.Module) == 0 || len(x.Module) > maxModuleBytes {
		return fmt.Errorf("plugin %.80q: a module of %d bytes, want 1 to %d", x.Push.Name,
			len(x.Module), maxModuleBytes)
	}
	if x.Push.SHA256 != digestOf(x.Module) || x.Push.Bytes != int64(len(x.Module)) {
		return fmt.Errorf("plugin %.80q: the module is not that of the version", x.Push.Name)
	}
	return nil
}

func (x *CommitCursor) check() error { return checkCursor(&x.Cursor) }
func (x *DropCursor) check() error   { return checkCursor(&cursors.Cursor{Name: x.Name}) }

func checkCursor(c *cursors.Cursor) error {
	if !cursors.ValidName(c.Name) {
		return fmt.Errorf("%.80q is no name for a cursor", c.Name)
	}
	if c.Question != "" && !cursors.ValidName(c.Question) {
		return fmt.Errorf("%.80q is no question of a cursor", c.Question)
	}
	return nil
}

// newVersion is the result of a change of the catalog or the cursors, which takes the next version.
func (s *State) newVersion() Result {
	s.version++
	return Result{Changed: true, Version: s.version}
}

func (x *ChangeCatalog) apply(s *State) Result {
	if err := s.catalog.Apply(&x.Change); err != nil {
		return Result{Err: err}
	}
	out := s.newVersion()
	s.catalogAt = s.version
	return out
}

func (x *CommitCursor) apply(s *State) Result {
	old, known := s.cursors[x.Name]
	next, err := cursors.Next(old, known, len(s.cursors), x.Cursor, x.Force)
	if err != nil {
		return Result{Err: err}
	}
	s.cursors[x.Name] = next
	return s.newVersion()
}

func (x *DropCursor) apply(s *State) Result {
	if _, known := s.cursors[x.Name]; !known {
		return Result{Err: cursors.Unknown(x.Name)}
	}
	delete(s.cursors, x.Name)
	return s.newVersion()
}

// catalogFields writes or reads the catalogue and the cursors.
func (s *State) catalogFields(c *coder) {
	if c.reading {
		s.catalog = catalog.State{Plugins: map[string]catalog.Plugin{},
			Quantities: map[int32]plugin.Quantity{}}
	}
	mapped(c, s.catalog.Plugins, catalog.MaxVersions, strings.Compare,
		func(name *string, p *catalog.Plugin) {
			c.text(name, maxNameBytes)
			list(c, &p.Versions, catalog.MaxVersions, func(v *catalog.Version) {
				c.text(&v.SHA256, maxNameBytes)
				signed(c, &v.Bytes)
				c.text(&v.Owner, maxTextBytes)
				c.text(&v.Description, maxTextBytes)
				signed(c, &v.UploadedNs)
			})
			current := uint32(p.Current)
			number(c, &current)
			p.Current = int(current)
		})
	mapped(c, s.catalog.Quantities, catalog.MaxQuantities,
		func(a, b int32) int { return int(a) - int(b) },
		func(moid *int32, q *plugin.Quantity) {
			quantityFields(c, q)
			*moid = q.MOID
		})
	mapped(c, s.cursors, cursors.Max, strings.Compare,
		func(name *string, x *cursors.Cursor) {
			cursorFields(c, x)
			*name = x.Name
		})
}

// checkTold refuses what commands cannot have made.
func (s *State) checkTold() error {
	err := s.catalog.Valid()
	for _, x := range s.cursors {
		err = errors.Join(err, checkCursor(&x))
	}
	declared := len(s.catalog.Plugins) + len(s.catalog.Quantities)
	if s.catalogAt > s.version || declared > 0 && s.catalogAt == 0 ||
		s.version < uint64(declared+len(s.cursors)) {
		err = fmt.Errorf("version %d of the catalogue, %d in all", s.catalogAt, s.version)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errForm, err)
	}
	return nil
}

// At is how new a state is: each state is as new as, older or newer than any other of its cluster.
type At struct {
	Epoch   uint64 // of the view
	Catalog uint64 // version of the catalogue; cursors change too often to send states for them
}

// Before reports whether another one is newer.
func (a At) Before(b At) bool { return a.Epoch < b.Epoch || a.Catalog < b.Catalog }

// At returns how new the state is.
func (m *Meta) At() At {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.At()
}

// At returns how new the state is.
func (s *State) At() At { return At{Epoch: s.epoch, Catalog: s.catalogAt} }

// Catalog returns the catalogue, which never changes.
func (s *State) Catalog() catalog.State { return s.catalog }

// Version counts changes of the catalogue and of cursors.
func (m *Meta) Version() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.version
}

// Catalog returns the catalogue, which never changes.
func (m *Meta) Catalog() catalog.State {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Catalog()
}

// Cursors returns the cursors by name.
func (m *Meta) Cursors() []cursors.Cursor {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return cursors.Sorted(m.state.cursors)
}

// Cursor returns a cursor.
//
// Errors: cursors.ErrUnknown.
func (m *Meta) Cursor(name string) (cursors.Cursor, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, ok := m.state.cursors[name]
	if !ok {
		return c, cursors.Unknown(name)
	}
	return c, nil
}

// Advance puts a state in place of the present one if it is newer, and says whether it was.
func (m *Meta) Advance(s *State) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.state.At().Before(s.At()) {
		return false
	}
	s.known = m.state.known
	m.state = s
	m.view.Store(s.View())
	return true
}
