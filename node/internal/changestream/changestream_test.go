package changestream

import (
	"bufio"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestChangesOfSharedAcqs: who breaks off between records that share an acq, or between one and an
// event of that acq, goes on before all of them.
func TestChangesOfSharedAcqs(t *testing.T) {
	s := &store.Slice{FromNs: 0, ClosedNs: 9,
		Events: []event.Event{{AcqNs: 6, Kind: event.Erase}}}
	for mid, acq := range []int64{4, 5, 5, 6, 8} {
		s.Rows.AppendStamped(record.Key{MID: int64(mid), AcqNs: acq}, nil)
	}
	var text strings.Builder
	w := bufio.NewWriter(&text)
	c := &Writer{Format: Events, Payloads: quantity.Base64}
	if err := c.Slice(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(text.String()) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	if got := strings.Join(ids, " "); got != "5 5 6 6 7 9 9" {
		t.Errorf("positions %s", got)
	}
}
