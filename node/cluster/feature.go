package cluster

import (
	"errors"
	"fmt"
)

// Feature levels: append only. Each is what all nodes of a cluster must know before any of them
// writes it to a log, to a state, or to another node. A program runs a range of them.
//
//	1: first
//	2: groups can be split
//	3: 256 devices share a slot, so that who runs less looks for records elsewhere
//	4: payloads of commands are packed as decimals
//	5: commands for other nodes go over the connections of groups
//	6: blocks of segments have 8,192 rows
//	7: stores of format 5, logs of version 2, nodes compare clocks and prove what they promised
//	8: stores of format 6, leaders begin above what was leased outside the log
//	9: requests between nodes number the groups as people see them
//	10: puts say whether their writer is persistent
//	11: the state says which version of the program each node runs; in development
const (
	splitFeature   = 2
	programFeature = 11
	// newestFeature is the greatest level of which this package knows the bytes.
	newestFeature = programFeature
)

// levels is set by the linker (-X) where a test of upgrades builds programs: "before" for one that
// runs the level before the newest, "after" for one that runs both.
var levels = ""

// Features are the levels that a program runs. The zero value stands for Supported.
type Features struct{ First, Last uint32 }

// Supported returns the levels that this program runs: a level that is in development is none of
// them, and only tests run it.
func Supported() Features {
	switch levels {
	case "":
		return Features{First: 10, Last: 10}
	case "before":
		return Features{First: newestFeature - 1, Last: newestFeature - 1}
	case "after":
		return InDevelopment()
	}
	panic("BUG: no levels are called " + levels)
}

// InDevelopment returns the levels that the program will run when the newest one is released.
func InDevelopment() Features { return Features{First: newestFeature - 1, Last: newestFeature} }

// Has reports whether a level is among those that are run.
func (f Features) Has(level uint32) bool { return f.First <= level && level <= f.Last }

func (f Features) check() error {
	if f.First == 0 || f.First > f.Last || f.Last > newestFeature {
		return fmt.Errorf("cluster: feature levels %d to %d: levels 1 to %d are known", f.First,
			f.Last, newestFeature)
	}
	return nil
}

// ErrOtherRules means that a cluster works by rules that this program does not know. Nothing is
// damaged: another version of the program knows them.
var ErrOtherRules = errors.New("the cluster works by rules that this version of pentad does not " +
	"know")

// LevelError says that something was written by a feature level that this program does not run. It
// is ErrOtherRules.
type LevelError struct {
	Cluster ID     // zero: not known
	What    string // that was read
	Level   uint32
	Known   Features
}

func (e *LevelError) Error() string {
	if e.Level < e.Known.First {
		return fmt.Sprintf("%s was written by feature level %d, this program runs levels %d to "+
			"%d: start the version of pentad that ran before, raise the cluster with pentad "+
			"cluster raise, and then start this version again", e.What, e.Level, e.Known.First,
			e.Known.Last)
	}
	return fmt.Sprintf("%s was written by feature level %d, this program knows levels up to %d: "+
		"start the version of pentad that the other nodes run, or empty the directory and join "+
		"as a new node with it; nothing was changed", e.What, e.Level, e.Known.Last)
}

// Unwrap returns ErrOtherRules.
func (*LevelError) Unwrap() error { return ErrOtherRules }

// Suits returns a *LevelError for a state that was written by a level which is not run.
func (s *State) Suits(f Features) error { return f.suits(s.cluster, s.feature) }

// Suits is State.Suits.
func (v *View) Suits(f Features) error { return f.suits(v.Cluster, v.Feature) }

func (f Features) suits(id ID, level uint32) error {
	if id == (ID{}) || f.Has(level) { // or it is not created yet
		return nil
	}
	return &LevelError{Cluster: id, What: "the state of the cluster", Level: level, Known: f}
}

// RunAs limits the state to levels: a command that would raise it above them is an error of Apply
// and changes nothing.
func (s *State) RunAs(f Features) { s.known = f }

// raises returns the level that a command would give the state, 0 when it leaves that as it is.
func (s *State) raises(cmd Command) uint32 {
	switch x := cmd.(type) {
	case *Create:
		if s.cluster == (ID{}) {
			return x.Feature
		}
	case *RaiseFeature:
		if x.Level != s.feature && s.refusesRaise(x) == nil {
			return x.Level
		}
	case *Idempotent:
		if !s.wasDone(x.ID) {
			return s.raises(x.Command)
		}
	}
	return 0
}

func (x *RaiseFeature) apply(s *State) Result {
	if x.Level == s.feature {
		return Result{}
	}
	if err := s.refusesRaise(x); err != nil {
		return Result{Err: err}
	}
	s.epoch++
	s.feature = x.Level
	return Result{Changed: true}
}

// refusesRaise says why a level above the present one may not be raised to.
func (s *State) refusesRaise(x *RaiseFeature) error {
	if x.Level != s.feature+1 {
		return refused("feature level %d: the cluster is at %d and is raised by one at a time",
			x.Level, s.feature).Err
	}
	var behind NodeID // the lowest, so that replicas say the same
	for id, n := range s.nodes {
		if n.State != NodeLeft && n.MaxFeature < x.Level && (behind == 0 || id < behind) {
			behind = id
		}
	}
	if behind != 0 {
		return refused("feature level %d: node %v runs at most %d; upgrade it first, or remove it "+
			"if it is lost", x.Level, behind, s.nodes[behind].MaxFeature).Err
	}
	return nil
}

// SetProgram says which version of the program a node runs.
type SetProgram struct {
	Node    NodeID
	Program string
}

const maxProgramBytes = 64

func (*SetProgram) kind() uint8 { return commandSetProgram }

func (x *SetProgram) fields(c *coder) {
	number(c, &x.Node)
	c.text(&x.Program, maxProgramBytes)
}

func (x *SetProgram) check() error {
	if len(x.Program) > maxProgramBytes {
		return fmt.Errorf("node %v: a version of %d bytes, at most %d are possible", x.Node,
			len(x.Program), maxProgramBytes)
	}
	return nil
}

func (x *SetProgram) apply(s *State) Result {
	n := s.nodes[x.Node]
	switch {
	case s.feature < programFeature:
		return refused("versions of nodes are told from feature level %d on, the cluster is at %d",
			programFeature, s.feature)
	case n.ID == 0:
		return unknown("node %v", x.Node)
	case n.Program == x.Program:
		return Result{}
	}
	s.epoch++
	n.Program = x.Program
	s.nodes[n.ID] = n
	return Result{Changed: true}
}

// TellsProgram reports whether nodes say which version of the program they run.
func (v *View) TellsProgram() bool { return v.Feature >= programFeature }

// Raisable returns the greatest level that all nodes run which have not left; that of the view when
// there is none above.
func (v *View) Raisable() uint32 {
	least := uint32(newestFeature)
	for _, n := range v.Nodes {
		if n.State != NodeLeft {
			least = min(least, n.MaxFeature)
		}
	}
	return max(least, v.Feature)
}
