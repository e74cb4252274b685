package cluster

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/crc32c"
)

// atProgramFeature returns a cluster of two nodes at the level that is in development.
func atProgramFeature(t *testing.T) *State {
	t.Helper()
	s := NewState()
	create := testCreate(1, 1)
	create.Feature = programFeature - 1
	create.First.MaxFeature = programFeature
	must(t, s, create)
	second := testNode(2, "b")
	second.MaxFeature = programFeature
	must(t, s, &PutNode{second})
	fails(t, s, &SetProgram{Node: 1, Program: "v2"}, ErrRefused)
	must(t, s, &RaiseFeature{programFeature})
	return s
}

func TestVersionsOfNodes(t *testing.T) {
	s := atProgramFeature(t)
	fails(t, s, &SetProgram{Node: 3, Program: "v2"}, ErrUnknown)
	must(t, s, &SetProgram{Node: 2, Program: "v2"})
	same(t, s, &SetProgram{Node: 2, Program: "v2"})
	again, err := ParseState(s.AppendSnapshot(nil))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := again.View().Node(2)
	if n.Program != "v2" || !again.View().TellsProgram() {
		t.Errorf("%+v", n)
	}
	n.Zone, n.Program = "c", "" // as the command brings it
	must(t, s, &PutNode{n})
	if n, _ := s.View().Node(2); n.Program != "v2" {
		t.Errorf("the same start of node 2 runs %q", n.Program)
	}
	n.Incarnation++
	must(t, s, &PutNode{n})
	if n, _ := s.View().Node(2); n.Program != "" {
		t.Errorf("another start of node 2 runs %q", n.Program)
	}
	long := &SetProgram{Node: 2, Program: strings.Repeat("v", maxProgramBytes+1)}
	if _, err := AppendCommand(nil, long); err == nil {
		t.Error("a version of 65 bytes was encoded")
	}
}

// Each level is written as the program wrote it that had only that level.
func TestStatesOfEachLevel(t *testing.T) {
	s := atProgramFeature(t)
	for level, version := range map[uint32]byte{1: 1, splitFeature: 2, programFeature - 1: 2,
		programFeature: 3} {
		s.feature = level
		src := s.AppendSnapshot(nil)
		if src[len(snapshotMagic)] != version {
			t.Errorf("level %d is written as version %d", level, src[len(snapshotMagic)])
		}
		again, err := ParseState(src)
		if err != nil || !bytes.Equal(again.AppendSnapshot(nil), src) {
			t.Errorf("level %d: %v", level, err)
		}
	}
}

// isLevel wants the error of a level that is not known.
func isLevel(t *testing.T, err error, level uint32) {
	t.Helper()
	var at *LevelError
	if !errors.Is(err, ErrOtherRules) || !errors.As(err, &at) || at.Level != level ||
		at.Cluster == (ID{}) {
		t.Errorf("level %d: %v", level, err)
	}
}

func TestAHigherLevelIsRefusedWhole(t *testing.T) {
	s := atProgramFeature(t)
	s.feature = programFeature - 1
	s.RunAs(Features{First: 1, Last: programFeature - 1}) // as an older program
	before := s.AppendSnapshot(nil)
	for _, cmd := range []Command{&RaiseFeature{programFeature},
		&Idempotent{ID: 7, Command: &RaiseFeature{programFeature}}} {
		_, err := s.Apply(encoded(t, cmd))
		isLevel(t, err, programFeature)
		if !bytes.Equal(before, s.AppendSnapshot(nil)) {
			t.Errorf("%T left a trace", cmd)
		}
	}
	fails(t, s, &RaiseFeature{programFeature + 1}, ErrRefused) // as on every other node
	one := s.nodes[2]
	one.MaxFeature = programFeature - 1
	s.nodes[2] = one
	fails(t, s, &RaiseFeature{programFeature}, ErrRefused)

	s.feature = programFeature
	isLevel(t, s.Suits(s.known), programFeature)
	isLevel(t, s.View().Suits(s.known), programFeature)
	isLevel(t, s.Suits(Features{programFeature + 1, programFeature + 2}), programFeature)
	if err := NewState().Suits(s.known); err != nil { // nothing is created
		t.Error(err)
	}
}

// A state of a version that is not known yet says its level, unless it is damaged.
func TestAStateOfANewerProgram(t *testing.T) {
	s := atProgramFeature(t)
	s.feature = 77
	src := s.AppendSnapshot(nil)
	src[len(snapshotMagic)] = snapshotVersion + 1
	src = append(src[:len(src)-4], "what a newer version writes"...)
	sum := crc32c.Sum(src)
	src = append(src, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	_, err := ParseState(src)
	isLevel(t, err, 77)
	for i := range src {
		bent := bytes.Clone(src)
		bent[i] ^= 1
		if _, err := ParseState(bent); err == nil || errors.Is(err, ErrOtherRules) {
			t.Fatalf("byte %d is bent: %v", i, err)
		}
	}
}

func TestLevelsOfAConfiguration(t *testing.T) {
	f := func(levels Features, want Features) {
		t.Helper()
		c := testConfig()
		c.Features = levels
		c, err := c.Complete()
		if (err != nil) != (want == Features{}) || err == nil && c.Features != want {
			t.Errorf("%v: %v, %v", levels, c.Features, err)
		}
	}
	f(Features{}, Supported())
	f(InDevelopment(), InDevelopment())
	f(Features{3, 2}, Features{})
	f(Features{0, 2}, Features{})
	f(Features{8, newestFeature + 1}, Features{})
}
