package cluster

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFormatExamples reads the examples of FORMAT.md, and writes what they mean.
func TestFormatExamples(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	card, err := AppendCard(nil, Card{Node: testNode(7, "a"), Epoch: 300})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState()
	must(t, s, testCreate(1, 3))
	state := s.AppendSnapshot(nil)
	want := map[string][]byte{
		"StartPlan": encoded(t, &StartPlan{ID: 300, Group: 3, Epoch: 9, Add: 7, Remove: 4}),
		"PutItem":   encoded(t, &PutItem{KindCursor, "bills", 0, []byte("42")}),
		"Card":      card,
		"State":     state,
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
