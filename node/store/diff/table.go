package diff

import (
	"slices"

	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

// pairState is a version of a reading: the newest that an acq shows, as far as is known.
type pairState struct {
	acqNs      int64
	at, size   int // of the payload in the table
	known      bool
	tombstoned bool
}

func (v *pairState) shown() bool { return v.known && !v.tombstoned }

// pair is a reading as of two acqs.
type pair struct {
	versions.Reading
	old, new pairState
}

// table holds the readings of a partition that may differ, with a payload for each acq.
type table struct {
	newest *versions.Table // whose versions have places in pairs in place of an acq
	pairs  []pair          // by tenant, quantity, device, cap, as blocks are sorted
	data   []byte
	live   int // bytes of data that pairs name
	limit  int // for live, unless there is one reading only
}

// fill makes a pair of each reading that was gathered.
func (t *table) fill(n *versions.Table, limit int) {
	t.newest, t.pairs, t.data = n, t.pairs[:0], t.data[:0]
	t.live, t.limit = 0, limit
	for r := range n.All {
		t.pairs = append(t.pairs, pair{Reading: *r})
	}
	slices.SortFunc(t.pairs, func(a, b pair) int { return a.Compare(&b.Reading) })
	for i := range t.pairs {
		n.SetValue(&t.pairs[i].Reading, int64(i))
	}
}

// find returns the pair of row i, nil when it is not in the table.
func (t *table) find(b *record.Batch, i int) *pair {
	if len(t.pairs) == 0 {
		return nil
	}
	at, ok := t.newest.Value(b, i)
	if !ok {
		return nil
	}
	return &t.pairs[at]
}

// payload returns the payload of a version, aliasing the table.
func (t *table) payload(v *pairState) []byte { return t.data[v.at : v.at+v.size] }

// keep takes row i for the newest version that v knows.
func (t *table) keep(v *pairState, b *record.Batch, i int) {
	payload := b.Payload(i)
	t.live += len(payload) - v.size
	if len(payload) > v.size {
		v.at = len(t.data)
		t.data = append(t.data, payload...)
	} else {
		copy(t.data[v.at:], payload)
	}
	v.size = len(payload)
	v.acqNs, v.known, v.tombstoned = b.AcqNs[i], true, b.Tomb(i)
}

// checkLimit drops payloads that no one names any more, when they are many.
//
// Errors: versions.ErrFull when there are too many that are named.
func (t *table) checkLimit() error {
	if t.live > t.limit && len(t.pairs) > 1 {
		return versions.ErrFull
	}
	if len(t.data) <= 2*max(t.live, t.limit) {
		return nil
	}
	data := make([]byte, 0, t.live)
	for i := range t.pairs {
		for _, v := range []*pairState{&t.pairs[i].old, &t.pairs[i].new} {
			at := len(data)
			data = append(data, t.payload(v)...)
			v.at = at
		}
	}
	t.data = data
	return nil
}
