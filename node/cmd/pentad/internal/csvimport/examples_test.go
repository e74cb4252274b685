package csvimport

import (
	"path/filepath"
	"testing"
)

// TestExamples checks the mappings that users start from.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%d example mappings, %v", len(paths), err)
	}
	for _, path := range paths {
		m, err := LoadMapping(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if err := m.Check(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
