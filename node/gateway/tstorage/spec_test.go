package tstorage

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"
)

// examples returns the hex examples of TSTORAGE.md by name.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("TSTORAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	found, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```hex "):
			name = strings.TrimPrefix(line, "```hex ")
		case strings.HasPrefix(line, "```"):
			name = ""
		case name != "":
			digits, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
			if err != nil {
				t.Fatalf("example %s: %v", name, err)
			}
			found[name] = append(found[name], b...)
		}
	}
	return found
}

// TestSpecification sends the requests of TSTORAGE.md and compares the answers, apart from the
// times at which the record came.
func TestSpecification(t *testing.T) {
	found := examples(t)
	if len(found) != 3 {
		t.Fatalf("%d examples", len(found))
	}
	r := ttRecord{ttKey{7, 1001, 3, 1_000_000_000, 0}, "21.5"}
	if want := ttPut(false, r); !bytes.Equal(found["put"], want) {
		t.Errorf("put: % x, want % x", found["put"], want)
	}
	from := ttKey{7, 1001, 3, ttMin().cap, ttMin().acq}
	to := ttKey{8, 1002, 4, ttMax().cap, ttMax().acq}
	if want := ttBox(1, from, to); !bytes.Equal(found["get"], want) {
		t.Errorf("get: % x, want % x", found["get"], want)
	}
	c := ttDial(t, serve(t, Options{}))
	if _, _, st, err := c.send(found["put"]); err != nil || st != 0 {
		t.Fatalf("put: status %d, %v", st, err)
	}
	if _, err := c.Write(found["get"]); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(found["answer"]))
	for at := 0; at < len(got); {
		n, err := c.in.Read(got[at:])
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
	const acqAt = 12 + 4 + 24
	end := len(got) - 8
	example := int64(20_000 * time.Second)
	copy(got[acqAt:], le64(nil, example))
	copy(got[end:], le64(nil, example+1))
	if !bytes.Equal(got, found["answer"]) {
		t.Errorf("answer: % x, want % x", got, found["answer"])
	}
}
