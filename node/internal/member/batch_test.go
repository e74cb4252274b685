package member

import (
	"bytes"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
)

func appendParts(dst []byte, parts ...Part) []byte {
	return append(dst, bytes.Join(buffersOf(parts), nil)...)
}

func FuzzParts(f *testing.F) {
	f.Add(appendParts(nil, Part{Group: 3, Data: []byte("put")}, Part{Group: 4}))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		if parts, ok := parseParts(src); ok && !bytes.Equal(appendParts(nil, parts...), src) {
			t.Errorf("%x is written as %x", src, appendParts(nil, parts...))
		}
	})
}

// Each command of a request gets a goroutine, and the least has no bytes but its header.
func TestARequestHasNoMoreCommandsThanThereAreGroups(t *testing.T) {
	src := make([]byte, partHeaderBytes*cluster.MaxGroups)
	if parts, ok := parseParts(src); !ok || len(parts) != cluster.MaxGroups {
		t.Errorf("%d commands, %v", len(parts), ok)
	}
	if parts, ok := parseParts(append(src, src[:partHeaderBytes]...)); ok {
		t.Errorf("%d commands are taken", len(parts))
	}
}

func TestCutRequestIsNotAnswered(t *testing.T) {
	whole := appendParts(nil, Part{Group: 3, Data: []byte("put")})
	for n := 1; n < len(whole); n++ {
		if text := new(Member).serveProposals(whole[:n]); text != nil {
			t.Errorf("%d of %d bytes: %q", n, len(whole), text)
		}
	}
}
