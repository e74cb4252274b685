package httpapi

import (
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
)

// TestAskedGroupsHaveTheirNumbers in requests.
func TestAskedGroupsHaveTheirNumbers(t *testing.T) {
	const group = cluster.GroupID(3)
	options, _, err := parseGroups("3")
	if err != nil || len(options) != 1 || options[0] != group {
		t.Errorf("groups=3 asks for %v, %v", options, err)
	}
	for _, text := range []string{"x", "2,1", "1,1", "-1", "0", "0,1", "1,", "65536", "1:",
		"1:5-5", "1:0-16385", "1:5"} {
		if groups, _, err := parseGroups(text); err == nil {
			t.Errorf("%q is %v", text, groups)
		}
	}
}
