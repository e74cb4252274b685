package node_test

import (
	"bytes"
	"testing"
)

// A test that is skipped for what its machine lacks says so through cluster-test/required, where CI
// can ask for it. Only what the short form leaves out is skipped without.
func TestSkipsAreCounted(t *testing.T) {
	calls := [][]byte{[]byte(".Skip("), []byte(".Skipf("), []byte(".SkipNow("),
		[]byte("NOT TESTED")}
	for _, s := range sources(t) {
		own := s.path == "node/tidy_skip_test.go" || bytes.HasPrefix([]byte(s.path),
			[]byte("cluster-test/required/"))
		lines := bytes.Split(s.text, []byte("\n"))
		for i, line := range lines {
			for _, call := range calls {
				short := i > 0 && bytes.Contains(lines[i-1], []byte("testing.Short()"))
				counted := bytes.Contains(line, []byte("required.Skip("))
				if !own && bytes.Contains(line, call) && !short && !counted {
					t.Errorf("%s:%d: %s; say what is missing with cluster-test/required", s.path,
						i+1, bytes.TrimSpace(line))
				}
			}
		}
	}
}
