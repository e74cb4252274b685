package client

import (
	"testing"

	"github.com/pentad-db/pentad/sdk/wire"
)

// The acqs of a writer are those of all replies that say some.
func TestWriterStatsAcqs(t *testing.T) {
	var s WriterStats
	for _, r := range []wire.PutReply{{Duplicate: true}, {FirstAcqNs: 20, LastAcqNs: 30},
		{Duplicate: true, FirstAcqNs: 10, LastAcqNs: 15}, {Duplicate: true}} {
		s.add(5, &r)
	}
	want := WriterStats{Records: 20, Batches: 4, Duplicates: 3, Known: 15, FirstAcqNs: 10,
		LastAcqNs: 30}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}
