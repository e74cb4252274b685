package queryflags

import (
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

func TestParseGroup(t *testing.T) {
	f := func(text string, want record.GroupBy) {
		t.Helper()
		if got, err := ParseGroup(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	f("", record.GroupBy{})
	f("cid", record.GroupBy{CID: true})
	f("mid, moid,cap=15m", record.GroupBy{MID: true, MOID: true, CapBucketNs: 15 * 60 * 1e9})
	f("cap=1d", record.GroupBy{CapBucketNs: 86400 * 1e9})
	f("cap=1000", record.GroupBy{CapBucketNs: 1000})
	for _, text := range []string{"day", "cid=1", "cap", "cap=", "cap=0", "cap=-1h", "cid,,mid"} {
		if got, err := ParseGroup(text); err == nil {
			t.Errorf("%q is taken: %+v", text, got)
		}
	}
}
