package replica

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// example returns the bytes of a hex example of FORMAT.md.
func example(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```hex "+name+"\n")
	body, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("FORMAT.md has no example %s", name)
	}
	var digits strings.Builder
	for line := range strings.Lines(body) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	out, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFormatExample(t *testing.T) {
	want := example(t, "flush")
	f := frame{group: 9, kind: kindEntry, number: 4, term: 2, index: 7, payload: []byte("hi")}
	got := appendFrame(make([]byte, flushHeaderBytes), &f, byte(pb.EntryNormal), true)
	putFlush(got, flush{seq: 5, size: uint32(len(got) - flushHeaderBytes), frames: 1})
	if !bytes.Equal(got, want) {
		t.Errorf("the writer makes\n%x, FORMAT.md says\n%x", got, want)
	}
	head, reason := parseFlush(want, 0)
	if _, whole := checkFrames(want[flushHeaderBytes:], head); reason != "" || !whole {
		t.Errorf("the example cannot be read: %s", reason)
	}
}

// Identities survive their encoding, and nothing shorter or longer is one.
func TestIdentity(t *testing.T) {
	id := identity{replica: 1, term: 2, vote: 3, commit: 4, config: config{index: 5,
		state: &pb.ConfState{Voters: []uint64{6, 7}, Learners: []uint64{8},
			VotersOutgoing: []uint64{9}, LearnersNext: []uint64{10}, AutoLeave: new(true)},
		newest: []uint64{11}}}
	src := appendIdentity(nil, &id)
	if got, ok := parseIdentity(src); !ok || !reflect.DeepEqual(got, id) {
		t.Errorf("got %+v, want %+v", got, id)
	}
	for n := range src {
		if _, ok := parseIdentity(src[:n]); ok {
			t.Errorf("%d of %d bytes are read", n, len(src))
		}
	}
	if _, ok := parseIdentity(append(src, 0)); ok {
		t.Error("a byte too many is read")
	}
}
