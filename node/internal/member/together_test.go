package member

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/wire"
)

func FuzzParts(f *testing.F) {
	f.Add(appendParts(nil, []Part{{Group: 3, Data: []byte("put")}, {Group: 4}}))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		if parts, ok := parseParts(src); ok && !bytes.Equal(appendParts(nil, parts), src) {
			t.Errorf("%x is written as %x", src, appendParts(nil, parts))
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

func TestCutRequestIsRefused(t *testing.T) {
	whole := appendParts(nil, []Part{{Group: 3, Data: []byte("put")}})
	for n := range len(whole) {
		_, err := new(Member).doHere(t.Context(), whole[:n])
		var refused *wire.Error
		if cut := n > 0; cut != (errors.As(err, &refused) && refused.Kind == wire.KindInvalid) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}
