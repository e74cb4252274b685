package clock

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// example returns the bytes of a hex example of the specification.
func example(t *testing.T, name string) (out []byte) {
	t.Helper()
	text, err := os.ReadFile("../../replica/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```hex "+name+"\n")
	body, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("there is no example %s", name)
	}
	for line := range strings.Lines(body) {
		digits, _, _ := strings.Cut(line, "#")
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

// What clocks send is what the specification says, and each other length or bit of their heads is
// refused.
func TestMessageExamples(t *testing.T) {
	ping := example(t, "ping")
	if got := appendPing(nil, 5e9); !bytes.Equal(got, ping) {
		t.Errorf("a ping is %x, the example %x", got, ping)
	}
	if sent, err := parsePing(ping); err != nil || sent != 5e9 {
		t.Errorf("the ping is read as %d, %v", sent, err)
	}
	want := pong{stepped: true, sure: true, sentNs: 5e9, boot: 42, monotonicNs: 7e9, wallNs: 18e17,
		nowNs: 18e17 - 5e8}
	text := example(t, "pong")
	if got := appendPong(nil, want); !bytes.Equal(got, text) {
		t.Errorf("a pong is %x, the example %x", got, text)
	}
	if got, err := parsePong(text); err != nil || got != want {
		t.Errorf("the pong is read as %+v, %v", got, err)
	}
	for _, message := range [][]byte{ping, text} {
		for size := range message {
			_, asPing := parsePing(message[:size])
			if _, asPong := parsePong(message[:size]); asPing == nil || asPong == nil {
				t.Errorf("%d of %d bytes are read", size, len(message))
			}
		}
		for bit := range 64 {
			if bit >= 8 && bit <= 11 { // the flags
				continue
			}
			bent := bytes.Clone(message)
			bent[bit/8] ^= 1 << (bit % 8)
			_, asPing := parsePing(bent)
			if _, asPong := parsePong(bent); asPing == nil || asPong == nil {
				t.Errorf("bit %d is bent, and it is read", bit)
			}
		}
	}
}
