package partials_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/partials"
)

// TestUnions compares unions with a map by the partials that they are of: what is found is what was
// put for the same ones, in whatever order and by however many workers these were found, while
// entries are replaced.
func TestUnions(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const limit, nBlocks, variants = 1 << 16, 6, 10
	c, s := partials.New(limit), &partials.SegmentTables{}
	table := tableOf(t, c, s, partials.Key{1}, nBlocks, 0)
	model, found, absent := map[string][]byte{}, 0, 0
	for range 20_000 {
		var set, other partials.Set
		var names []string
		table.Lock()
		for range 1 + r.IntN(3) {
			v := r.IntN(2)
			if r.IntN(30) == 0 {
				v = r.IntN(variants)
			}
			p := partials.Partial{Block: uint32(r.IntN(nBlocks)), Bounded: 1,
				From: [partials.Cuts]int64{int64(v)}}
			x, ok := table.FindSaved(&p)
			if !ok {
				x = partials.Saved{State: fmt.Append(nil, p), Rows: 1}
				table.PutSaved(&p, &x)
			}
			if !bytes.Equal(x.State, fmt.Append(nil, p)) {
				t.Fatalf("%v has the state %s", p, x.State)
			}
			if name := fmt.Sprint(p); !slices.Contains(names, name) {
				names = append(names, name)
			}
			if r.IntN(2) == 0 {
				set.Add(&x)
			} else {
				other.Add(&x)
			}
		}
		set.AddAll(&other)
		slices.Sort(names)
		name := fmt.Sprint(names)
		state, ok := table.FindUnion(&set)
		switch {
		case ok && !bytes.Equal(state, model[name]):
			t.Fatalf("union of %s is %s, put was %s", name, state, model[name])
		case ok:
			found++
		default:
			absent++
			model[name] = nil
			if r.IntN(4) > 0 {
				model[name] = fmt.Append(nil, "union ", name, r.Uint32())
			}
			table.PutUnion(&set, model[name])
		}
		table.Unlock()
		if ok && !set.Cached() {
			t.Fatalf("%s has a union, though not all of them are cached", name)
		}
		if st := c.Stats(); st.Bytes > limit {
			t.Fatalf("%d bytes, more than %d", st.Bytes, limit)
		}
	}
	if found < 100 || absent < 100 {
		t.Errorf("%d found, %d not", found, absent)
	}
}
