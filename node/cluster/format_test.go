package cluster

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/cursors"
)

// TestFormatExamples reads the examples of FORMAT.md, and writes what they mean.
func TestFormatExamples(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := AppendGossipMeta(nil, GossipMeta{Node: testNode(7, "a"), Epoch: 300})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState()
	must(t, s, testCreate(1, 3))
	push := pushCommand("mine", "wasm")
	push.Push.Owner, push.Push.UploadedNs = "ann", 300
	must(t, s, &CommitCursor{Cursor: testCursor("bills", 300)})
	state := s.AppendSnapshot(nil)
	want := map[string][]byte{
		"StartPlan": encoded(t, &StartPlan{ID: 300, Group: 3, Epoch: 9, Add: 7, Remove: 4}),
		"Push":      encoded(t, push),
		"Quantity":  encoded(t, quantityCommand(7)),
		"Register":  encoded(t, registerCommand(7, 1e5)),
		"CommitCursor": encoded(t, &CommitCursor{Cursor: cursors.Cursor{Name: "bills",
			AcqNs: 300, CommittedNs: 1000}, Force: true}),
		"DropCursor": encoded(t, &DropCursor{"bills"}),
		"SetProgram": encoded(t, &SetProgram{Node: 7, Program: "v1.2"}),
		"Idempotent": encoded(t, &Idempotent{ID: 300, Command: &AbortPlan{7}}),
		"GossipMeta": metadata,
		"State":      state,
	}
	blocks := regexp.MustCompile("(?s)```hex (\\w+)\n(.*?)```").FindAllSubmatch(doc, -1)
	if len(blocks) != len(want) {
		t.Errorf("%d examples, want %d", len(blocks), len(want))
	}
	for _, b := range blocks {
		var digits strings.Builder
		for line := range strings.Lines(string(b[2])) {
			text, _, _ := strings.Cut(line, "#")
			digits.WriteString(strings.Join(strings.Fields(text), ""))
		}
		got, err := hex.DecodeString(digits.String())
		if name := string(b[1]); err != nil || !bytes.Equal(got, want[name]) {
			t.Errorf("%s: %x, %v, want %x", name, got, err, want[name])
		}
	}
}
