package cluster

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/crc32c"
)

// FuzzCommand wants one form for each command, and a state that outlives all of them.
func FuzzCommand(f *testing.F) {
	s := NewState()
	r := rand.New(rand.NewPCG(1, 3))
	f.Add(encoded(f, testCreate(4, 3)))
	must(f, s, testCreate(4, 3))
	for range 200 {
		cmd := encoded(f, randomCommand(r, s))
		f.Add(cmd)
		if _, err := s.Apply(cmd); err != nil {
			f.Fatal(err)
		}
	}
	snapshot := s.AppendSnapshot(nil)
	f.Fuzz(func(t *testing.T, src []byte) {
		cmd, err := ParseCommand(src)
		var unknown *UnknownCommandError
		if err != nil {
			if !errors.As(err, &unknown) && len(err.Error()) > 1000 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := AppendCommand(nil, cmd)
		if err != nil || !bytes.Equal(again, src) {
			t.Fatalf("%x became %x, %v", src, again, err)
		}
		s, err := ParseState(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(src); err != nil && !errors.Is(err, ErrOtherRules) {
			t.Fatal(err)
		}
		if _, err := ParseState(s.AppendSnapshot(nil)); err != nil {
			t.Fatalf("%x leads to a state that cannot be read: %v", src, err)
		}
	})
}

// FuzzState reads states whose checksum is right, and applies commands to what was accepted.
func FuzzState(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 4))
	body := func(s *State) []byte {
		b := s.AppendSnapshot(nil)
		return b[:len(b)-4]
	}
	f.Add(body(NewState()))
	for range 4 {
		s := NewState()
		must(f, s, testCreate(4, 3))
		for range 300 {
			if _, err := s.Apply(encoded(f, randomCommand(r, s))); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(body(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := crc32c.Sum(body)
		src := append(bytes.Clone(body), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		s, err := ParseState(src)
		if err != nil {
			return
		}
		if again := s.AppendSnapshot(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x became %x", src, again)
		}
		r := rand.New(rand.NewPCG(uint64(sum), 5))
		for range 20 {
			if _, err := s.Apply(encoded(t, randomCommand(r, s))); err != nil {
				t.Fatal(err)
			}
		}
		s.View()
	})
}

// FuzzGossipMeta wants one form for all gossip metadata, and none that gossip cannot carry.
func FuzzGossipMeta(f *testing.F) {
	for n := 1; n < 4; n++ {
		src, err := AppendGossipMeta(nil,
			GossipMeta{Node: testNode(n, "zone"), Epoch: uint64(n) << 20})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		metadata, err := ParseGossipMeta(src)
		if err != nil {
			return
		}
		if again, err := AppendGossipMeta(nil, metadata); err != nil || !bytes.Equal(again, src) {
			t.Fatalf("%x became %x, %v", src, again, err)
		}
	})
}

// FuzzToken wants no secret in any text but its own.
func FuzzToken(f *testing.F) {
	f.Add(testToken().Text())
	f.Add("pentad1-00-00")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			return
		}
		again, err := ParseToken(token.Text())
		if err != nil || again != token {
			t.Fatalf("%q became %v, %v", text, again, err)
		}
	})
}

// FuzzSelf reads files that say who a node is.
func FuzzSelf(f *testing.F) {
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if self, _, err := parseSelf(text); err == nil && self.ID == 0 {
			t.Fatalf("%q names no node", text)
		}
	})
}
