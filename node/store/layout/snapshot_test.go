package layout

import (
	"testing"

	"github.com/pentad-db/pentad/node/internal/journal"
)

func FuzzParseSnapshot(f *testing.F) {
	f.Add(journal.AppendLine(nil, Snapshot{AcqNs: 5, Segments: 1}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if info, err := parseSnapshot(text); err == nil {
			again, err := parseSnapshot(journal.AppendLine(nil, info))
			if err != nil || again != info {
				t.Errorf("%+v, %v, want %+v", again, err, info)
			}
		}
	})
}
