package replica

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// A note is heard by the node that it was told, as the note of its sender, and may be answered.
func TestNote(t *testing.T) {
	c := newCluster(t, 1)
	c.tls = certificates(t, TLSName)
	answers := make(chan string, 1)
	c.heard = func(node, from uint64, note []byte) []byte {
		if bytes.HasPrefix(note, []byte("ping")) {
			return fmt.Appendf(nil, "answer to %s from %d to %d", note, from, node)
		}
		select {
		case answers <- string(note):
		default:
		}
		return nil
	}
	for id := range uint64(2) {
		c.open(id + 1)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for got := ""; got == ""; { // the first may be lost, as there is no connection yet
		c.nodes[1].SendNote(2, []byte("ping"))
		select {
		case got = <-answers:
			if got != "answer to ping from 1 to 2" {
				t.Errorf("%q", got)
			}
		case <-again.C:
		}
	}
	if c.nodes[1].SendNote(2, make([]byte, maxNoteBytes+1)) {
		t.Error("a note that is too large was sent")
	}
}
