package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestDescribe writes the description of the route table, the same each time. A test of openapi
// compares it with a running node.
func TestDescribe(t *testing.T) {
	s := &Server{}
	text, err := s.describe()
	if err != nil || !json.Valid(text) {
		t.Fatal(err, string(text))
	}
	for _, r := range s.routeTable() {
		if r.says.text == "" || r.says.gives == nil {
			t.Errorf("%s %s is not described", r.Method, r.Path)
		}
	}
	if again, err := s.describe(); err != nil || !bytes.Equal(text, again) {
		t.Errorf("another description, %v", err)
	}
}
