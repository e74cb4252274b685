package replica

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/sdk/crc32c"
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
	f := frame{group: 8, kind: kindEntry, number: 4, term: 2, index: 7, payload: []byte("hi")}
	got := appendFrame(make([]byte, flushHeaderBytes), &f, byte(pb.EntryNormal), true)
	got = sealFlush(got, flush{seq: 5, frames: 1})
	if !bytes.Equal(got, want) {
		t.Errorf("the writer makes\n%x, FORMAT.md says\n%x", got, want)
	}
	if p := parsePlace(want, 0); !p.whole {
		t.Errorf("the example cannot be read: %s", p.reason)
	}
}

// A log of another version is not damaged: no group loses its replica for it, and nothing is
// written.
func TestLogsOfOtherVersions(t *testing.T) {
	newer := example(t, "flush")
	binary.LittleEndian.PutUint32(newer[4:], 3)
	binary.LittleEndian.PutUint32(newer[36:], crc32c.Sum(newer[:36]))
	older := make([]byte, 100) // a header had 36 bytes
	copy(older, newer[:32])
	binary.LittleEndian.PutUint32(older[4:], 1)
	binary.LittleEndian.PutUint32(older[32:], crc32c.Sum(older[:32]))
	for version, data := range map[uint64][]byte{1: older, 3: newer} {
		for _, right := range []bool{true, false} {
			if !right {
				data[9] ^= 1
			}
			dir := t.TempDir()
			name := filepath.Join(dir, journalName(1))
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
			damage, _, err := CheckLog(dir, func(int64) error { return nil })
			if formats.Is(err) != right || (len(damage) > 0) == right {
				t.Errorf("check of version %d, right %v: %v, %v", version, right, damage, err)
			}
			files, err := Directory(dir)
			if err != nil {
				t.Fatal(err)
			}
			l, _, err := openJournal(files, &journal{fileBytes: 2000, keepBytes: 1 << 40})
			var other *formats.Error
			if errors.As(err, &other) != right || right && other.Version != version {
				t.Errorf("version %d, right %v: %v", version, right, err)
			}
			if err == nil {
				err = l.close()
			}
			if now, _ := os.ReadFile(name); right && !bytes.Equal(now, data) {
				t.Errorf("version %d was changed, %v", version, err)
			}
		}
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
