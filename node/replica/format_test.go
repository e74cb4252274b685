package replica

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strconv"
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
	var out []byte
	for line := range strings.Lines(body) {
		line, _, _ = strings.Cut(line, "#")
		digits, times, repeated := strings.Cut(line, "*")
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		n := 1
		if repeated && err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(times))
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, bytes.Repeat(b, n)...)
	}
	return out
}

func TestFormatExample(t *testing.T) {
	want := example(t, "flush")
	f := frame{group: 9, kind: kindEntry, number: 4, term: 2, index: 7, payload: []byte("hi")}
	got := appendFrame(make([]byte, flushHeaderBytes), &f, byte(pb.EntryNormal), true)
	got = sealFlush(got, flush{seq: 5, frames: 1})
	if !bytes.Equal(got, want) {
		t.Errorf("the writer makes\n%x, FORMAT.md says\n%x", got, want)
	}
	if p := parsePlace(want, 0); !p.whole {
		t.Errorf("the example cannot be read: %s", p.reason)
	}
}

func TestProofExample(t *testing.T) {
	p := proof{kind: proofAsk, from: NewID(2, 1), to: NewID(3, 1), number: 9, term: 5, last: 7,
		lastTerm: 4, commit: 6, commitTerm: 4, starts: []uint64{1<<startBits | 42},
		known: promises{{replica: NewID(3, 1), term: 5, vote: NewID(3, 1), index: 6}},
		config: config{index: 3,
			state: &pb.ConfState{Voters: []uint64{NewID(2, 1), NewID(3, 1)}}}}
	if want, got := example(t, "proof"), appendProof(nil, &p); !bytes.Equal(got, want) {
		t.Errorf("the writer makes\n%x, FORMAT.md says\n%x", got, want)
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
