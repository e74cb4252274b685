package cluster

import (
	"errors"
	"fmt"
	"slices"
)

// Once is a command that its sender may send again, under the same id, when no answer came: a state
// that was changed by it answers as before and does nothing. Without, it could undo what somebody
// else did meanwhile.
type Once struct {
	ID      uint64 // drawn by who sends it, not 0
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

func (*Once) kind() uint8 { return commandOnce }

func (x *Once) fields(c *coder) {
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
		if kind == commandOnce {
			c.fail("a command in one that is in another")
			return
		}
	}
	x.Command.fields(c)
}

func (x *Once) check() error {
	switch x.Command.(type) {
	case nil, *Once, *Create:
		return fmt.Errorf("%T cannot be sent once", x.Command)
	}
	if x.ID == 0 {
		return errors.New("a command that is sent once needs an id")
	}
	return x.Command.check()
}

// apply notes only what has changed something: what did not may be decided when it comes again.
func (x *Once) apply(s *State) Result {
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
