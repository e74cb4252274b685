package edge

import (
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
)

// TestPutBackUnheard puts a core back whose edge does not know whether its last batch was taken:
// the edge was killed before the answer was noted on its disk, or did not hear it. The batch counts
// among those that are sent again.
func TestPutBackUnheard(t *testing.T) {
	rng := seeded(t)
	c, from := newCore(t), newSource(rng)
	d := newPowerDisk(rng)
	opt := Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: time.Millisecond, folder: d}
	e := openEdge(t, opt)
	more := func() {
		for range 3 {
			put(t, e, from.batch(200))
			idle(t, e) // so each is a batch
		}
	}
	more()
	image, before := c.image(), from.total
	more()
	killed := slices.Clone(d.Content(outboxName))
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Put(outboxName, killed) // no more than this was written when it was killed
	c.putBack(image)
	e = openEdge(t, opt)
	idle(t, e)
	c.whole(from)
	if s := e.Shipping(); s.Losses != 1 || s.AgainRecords != int64(from.total-before) {
		t.Errorf("killed: %d records were lost: %+v", from.total-before, s)
	}
	image, before = c.image(), from.total
	more()
	c.set(always(lose))
	tries := c.reached()
	put(t, e, from.batch(200))
	until(t, "a batch is stored and not answered", func() bool { return c.reached() > tries })
	c.set(always(cutOff))
	c.putBack(image)
	c.set(always(pass))
	idle(t, e)
	c.whole(from)
	if s := e.Shipping(); s.Losses != 2 || s.AgainRecords != int64(from.total-before) {
		t.Errorf("not heard: %d records were lost: %+v", from.total-before, s)
	}
}
