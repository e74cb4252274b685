package seal

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestSpec compares the example of the document with what a writer makes, and opens it.
func TestSpec(t *testing.T) {
	doc, err := os.ReadFile("SEALING.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```hex lean\n(.*?)```").FindSubmatch(doc)
	if block == nil {
		t.Fatal("the document has no example")
	}
	text := regexp.MustCompile(`#.*`).ReplaceAllString(string(block[1]), "")
	want, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	var root Key
	for i := range root {
		root[i] = 0x11
	}
	s, err := NewSchema(Definition{ID: 7, MaxRecords: 1e9,
		Fields: []Field{{ID: 1, Name: "t", Kind: Number, Digits: 3, Max: 1e6, Sum: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if print := s.Fingerprint(); !bytes.Contains(doc, []byte(hex.EncodeToString(print[:]))) {
		t.Errorf("the document does not have the fingerprint %x", print)
	}
	var keys MemoryKeyring
	keys.Add(1, 1, root)
	tenant, err := OpenTenant(&keys, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tenant.NewWriter(context.Background(), s, 42, 7)
	if err != nil {
		t.Fatal(err)
	}
	w.beginChain(0x0807060504030201)
	got := mustSeal(t, w, 0, 21500)
	if !bytes.Equal(got, want) {
		t.Errorf("the payload is\n%x, and the document says\n%x", got, want)
	}
	o, err := tenant.Open(context.Background(), record.Key{CID: 1, MID: 42, MOID: 7}, want)
	if err != nil || o.Values[0].Number != 21500 {
		t.Errorf("opened %v, %v", o.Values, err)
	}
}
