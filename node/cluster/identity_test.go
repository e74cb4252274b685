package cluster

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/journal"

	"github.com/hashicorp/memberlist"
)

// newsOf is what memberlist says of a node.
func newsOf(t *testing.T, name NodeID, n Node) *memberlist.Node {
	t.Helper()
	news := &memberlist.Node{Name: name.String(), Addr: []byte{127, 0, 0, 1}, Port: 1}
	if n.ID != 0 {
		var err error
		if news.Meta, err = AppendGossipMeta(nil, GossipMeta{Node: n}); err != nil {
			t.Fatal(err)
		}
	}
	return news
}

func TestSelfCountsItsStarts(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenSelf(dir, rand.Reader)
	if err != nil || first.ID == 0 || StartCount(first.Incarnation) != 1 || first.Copied {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := OpenSelf(dir, rand.Reader)
	if err != nil || second.ID != first.ID || StartCount(second.Incarnation) != 2 ||
		second.Copied || !slices.Equal(second.Starts, []uint64{first.Incarnation,
		second.Incarnation}) {
		t.Fatalf("%+v after %+v, %v", second, first, err)
	}
	name := filepath.Join(dir, selfName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		bent := bytes.Clone(text)
		bent[i] ^= 4
		for _, damaged := range [][]byte{bent, text[:i]} {
			if err := os.WriteFile(name, damaged, 0o644); err != nil {
				t.Fatal(err)
			}
			if s, err := OpenSelf(dir, rand.Reader); err == nil {
				t.Fatalf("%q was read as %+v", damaged, s)
			}
		}
	}
	if _, err := OpenSelf(t.TempDir(), strings.NewReader("")); err == nil {
		t.Error("a node without random bytes has an id")
	}
}

// A directory whose NODE was copied or put back is known as that until it is settled, and its
// starts go on from what others remember.
func TestSelfOfACopy(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	open := func(dir string) Self {
		t.Helper()
		s, err := OpenSelf(dir, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	open(dir)
	text, err := os.ReadFile(filepath.Join(dir, selfName))
	if err != nil {
		t.Fatal(err)
	}
	known := originOf(filepath.Join(dir, selfName)) != "" // by this file system
	if err := os.WriteFile(filepath.Join(kept, selfName), text, 0o644); err != nil {
		t.Fatal(err)
	}
	later := open(dir)
	for range 2 { // also when it is started again
		if s := open(kept); s.Copied != known {
			t.Errorf("%+v is no copy", s)
		}
	}
	s := open(kept)
	if err := s.After(kept, 9<<incarnationBits|1, rand.Reader); err != nil || s.Copied != known ||
		StartCount(s.Incarnation) != 10 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := s.Settle(kept); err != nil {
		t.Fatal(err)
	}
	if s := open(kept); s.Copied || StartCount(s.Incarnation) != 11 {
		t.Errorf("%+v is settled", s)
	}
	// One that was put back over the file that was there.
	if err := os.WriteFile(filepath.Join(dir, selfName), text, 0o644); err != nil {
		t.Fatal(err)
	}
	s = open(dir)
	if s.Copied != known || s.Incarnation == later.Incarnation ||
		StartCount(s.Incarnation) != StartCount(later.Incarnation) {
		t.Errorf("%+v after %+v", s, later)
	}
}

// NODE of a program that counted starts and drew nothing.
func TestSelfOfFormat1(t *testing.T) {
	dir := t.TempDir()
	text := journal.AppendLine(nil, selfLine{Format: 1, ID: NodeID(7).String(), Incarnation: 12})
	if err := os.WriteFile(filepath.Join(dir, selfName), text, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSelf(dir, rand.Reader)
	if err != nil || s.ID != 7 || StartCount(s.Incarnation) != 13 || s.Copied ||
		len(s.Starts) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTokens(t *testing.T) {
	token, err := NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(token.Text()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadToken(name); err != nil || got != token {
		t.Fatalf("%v, %v", got, err)
	}
	secret := token.Text()[len(tokenPrefix)+33:]
	for _, text := range []string{fmt.Sprint(token), fmt.Sprintf("%v %+v", token, &token)} {
		if strings.Contains(text, secret[:8]) {
			t.Errorf("%s shows the secret", text)
		}
	}
	for _, text := range []string{"", secret, token.Text()[1:], token.Text() + "0",
		token.Text()[:len(token.Text())-1] + "x",
		"pentad1-" + strings.Repeat("0", 32) + "-" + secret} {
		got, err := ParseToken(text)
		if err == nil {
			t.Errorf("%q was read as %v", text, got)
		} else if strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%v shows the secret", err)
		}
	}
	one, err := token.gossipKey()
	if err != nil {
		t.Fatal(err)
	}
	token.Cluster[0]++
	two, err := token.gossipKey()
	if err != nil || bytes.Equal(one, two) || len(one) != 32 {
		t.Errorf("keys %x and %x, %v", one, two, err)
	}
}

func TestLongGossipMetadata(t *testing.T) {
	n := testNode(1, strings.Repeat("z", maxZoneBytes))
	n.RaftAddr = strings.Repeat("h", 250) + ":5151"
	if _, err := AppendGossipMeta(nil, GossipMeta{Node: n}); err != nil {
		t.Error(err)
	}
	n.HTTPAddr = n.RaftAddr
	if _, err := AppendGossipMeta(nil, GossipMeta{Node: n}); err == nil ||
		!strings.Contains(err.Error(), "shorten") {
		t.Errorf("%v", err)
	}
}
