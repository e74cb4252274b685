package node

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestLastComesBeforeTheFilter: the newest readings are chosen first, then filtered, ordered and
// limited.
func TestLastComesBeforeTheFilter(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	n := openTest(t, Options{Store: store.Options{SealRows: 3000, Shards: 2}})
	c := dial(t, n)
	all := fill(t, c, rng, 10_000)
	for i := range 20 {
		q := &record.Query{View: record.ViewLatest, Order: record.OrderKey,
			Last: uint32(1 + rng.IntN(3)), Limit: uint64(rng.IntN(300))}
		if rng.IntN(2) == 0 {
			q.Box[record.MID] = record.RangeSet{{From: 100, To: 400}}
		}
		want := expected(all, q, func(row) bool { return true })
		slices.SortFunc(want, func(a, b row) int {
			return cmp.Or(cmp.Compare(a.key.CID, b.key.CID), cmp.Compare(a.key.MID, b.key.MID),
				cmp.Compare(a.key.MOID, b.key.MOID), cmp.Compare(b.key.CapNs, a.key.CapNs))
		})
		var kept []row
		for k, at := 0, 0; k < len(want); k++ {
			a, b := want[at].key, want[k].key
			if a.CID != b.CID || a.MID != b.MID || a.MOID != b.MOID {
				at = k
			}
			if k-at < int(q.Last) && want[k].value > 50 {
				kept = append(kept, want[k])
			}
		}
		slices.SortFunc(kept, func(a, b row) int { return a.key.Compare(b.key) })
		call, err := parseCallOf(t, n, "threshold", "value=50")
		if err != nil {
			t.Fatal(err)
		}
		q.Filters = []record.PluginCall{call}
		if count, _, err := c.Count(t.Context(), q); err != nil || count != uint64(len(kept)) {
			t.Fatalf("query %d: %+v: count %d, %v, want %d", i, q, count, err, len(kept))
		}
		if q.Limit > 0 {
			kept = kept[:min(len(kept), int(q.Limit))]
		}
		checkQuery(t, c, fmt.Sprintf("query %d: %+v", i, q), q, kept)
	}
}

// TestLastForPeople: last implies the latest versions, and does not go with all.
func TestLastForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	for _, value := range []string{"20", "21", "22"} {
		a.expect("POST", "/v1/records?type=f64",
			`{"cid":1,"mid":1,"moid":1,"cap":"2024-05-01T10:00:00Z","value":`+value+`}`, 200)
	}
	a.expect("POST", "/v1/records?type=f64",
		`{"cid":1,"mid":1,"moid":1,"cap":"2024-05-01T09:00:00Z","value":19}`, 200)
	a.expect("GET", "/v1/records?type=f64&last=1", "", 200, `"value":22`, `"rows":1`)
	a.expect("GET", "/v1/count?last=5", "", 200, `2`)
	a.expect("GET", "/v1/count?last=5&asof=2024-05-02", "", 200, `0`)
	a.expect("GET", "/v1/plugins/stats/run?last=1&params=type=f64", "", 200, `"records":1`)
	a.expect("GET", "/v1/records?last=0", "", 400, `"part":"last"`, "count of readings from 1 on")
	a.expect("GET", "/v1/records?last=2000000", "", 400, `"part":"last"`, "at most 1048576")
	a.expect("GET", "/v1/records?last=1&view=all", "", 400, `"part":"last"`, "ask for the latest")
}
