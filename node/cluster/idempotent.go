package cluster

import (
	"errors"
	"fmt"
	"slices"
)

// Idempotent is a command that its sender may send again, under the same id, when no answer came: a
// state that was changed by it answers as before and does nothing. Otherwise it could undo what
// other clients did meanwhile.
type Idempotent struct {
	ID      uint64 // drawn by the sender, not 0
	Command Command
}

// maxDone bounds what a state knows by id: more than people and programs change within the time
// that a command is sent again. They take 20 bytes each in every copy of the state.
const maxDone = 1024

// done is what came of a command that was sent once.
type done struct {
	id      uint64
	version uint64 // of its result
}

func (*Idempotent) kind() uint8 { return commandIdempotent }

func (x *Idempotent) fields(c *coder) {
	number(c, &x.ID)
	var kind uint8
	if !c.reading {
		kind = x.Command.kind()
	}
	number(c, &kind)
	if c.reading {
		if x.Command = ofKind(kind); x.Command == nil {
			if c.err == nil {
				c.err = &UnknownCommandError{commandVersion, kind}
			}
			return
		}
		if kind == commandIdempotent {
			c.fail("an idempotent command inside another")
			return
		}
	}
	x.Command.fields(c)
}

func (x *Idempotent) check() error {
	switch x.Command.(type) {
	case nil, *Idempotent, *Create:
		return fmt.Errorf("%T cannot be sent as an idempotent command", x.Command)
	}
	if x.ID == 0 {
		return errors.New("an idempotent command needs an id")
	}
	return x.Command.check()
}

// apply notes only what has changed something: what did not may be decided when it comes again.
func (x *Idempotent) apply(s *State) Result {
	for _, d := range s.done {
		if d.id == x.ID {
			return Result{Changed: true, Version: d.version}
		}
	}
	r := x.Command.apply(s)
	if r.Changed {
		if len(s.done) == maxDone {
			s.done = slices.Delete(s.done, 0, 1)
		}
		s.done = append(s.done, done{x.ID, r.Version})
	}
	return r
}

func (s *State) wasDone(id uint64) bool {
	return slices.ContainsFunc(s.done, func(d done) bool { return d.id == id })
}

// doneFields writes or reads what was sent once, the oldest first.
func (s *State) doneFields(c *coder) {
	list(c, &s.done, maxDone, func(d *done) {
		number(c, &d.id)
		number(c, &d.version)
	})
}

func (s *State) checkDone() error {
	met := map[uint64]bool{}
	for _, d := range s.done {
		if d.id == 0 || met[d.id] || d.version > s.version {
			return fmt.Errorf("%w: command %d was done twice, or later", errForm, d.id)
		}
		met[d.id] = true
	}
	return nil
}
