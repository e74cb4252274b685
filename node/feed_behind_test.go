package node

import (
	"errors"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestReaderIsAheadOfANode: a position that another node gave may be above the horizon of this one,
// which gets there; one that no clock has reached is of another history.
func TestReaderIsAheadOfANode(t *testing.T) {
	c := openTogether(t, 1, 1)
	f := func(ahead time.Duration, want wire.Kind) {
		t.Helper()
		from := time.Now().Add(ahead).UnixNano()
		err := dial(t, c.nodes[0]).ChangesOnce(t.Context(), &record.Query{}, from, false, 0, nil)
		var e *wire.Error
		if !errors.As(err, &e) || e.Kind != want {
			t.Errorf("%s ahead: %v, want %s", ahead, err, want)
		}
	}
	f(30*time.Second, wire.KindUnavailable)
	f(time.Hour, wire.KindInvalid)
}
