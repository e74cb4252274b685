package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// hashed makes n rows of devices that are hashes, as claims of names are: a part of them are
// versions of others, and they come in another order than that of their devices.
func hashed(rng *rand.Rand, n int) *record.Batch {
	b := new(record.Batch)
	var keys []record.Key
	for i := range n {
		hash := rng.Uint64N(1 << 20)
		key := record.Key{CID: 1, MID: int64(hash), MOID: int32(rng.IntN(20) / 19),
			CapNs: int64(hash<<20) + rng.Int64N(3) - 1<<50}
		if len(keys) > 0 && rng.IntN(5) == 0 {
			key = keys[rng.IntN(len(keys))]
		}
		keys = append(keys, key)
		key.AcqNs = int64(i) * 3
		switch rng.IntN(30) {
		case 0:
			b.AppendStampedTomb(key)
		case 1:
			b.AppendStamped(key, make([]byte, 1+rng.IntN(100)))
		default:
			b.AppendStamped(key, []byte{byte(i), byte(i >> 8)})
		}
	}
	return b
}

// pairs is a box with the devices and caps of some rows, and of some that are not there: more than
// cells are looked up at least, of cells that have several.
func pairs(t *testing.T, rng *rand.Rand, rows *record.Batch) *record.Box {
	t.Helper()
	var q record.Query
	q.Box[record.CID] = record.RangeSet{record.At(1)}
	q.Box[record.MOID] = record.RangeSet{record.At(0)}
	withCaps := rng.IntN(3) > 0
	for range 1 + rng.IntN(900) {
		key := rows.Key(rng.IntN(rows.Len()))
		if rng.IntN(3) == 0 {
			key.MID ^= rng.Int64N(512)
		}
		q.Box[record.MID] = append(q.Box[record.MID],
			record.Range{From: key.MID, To: key.MID + 1 + rng.Int64N(1+rng.Int64N(300))})
		if withCaps {
			q.Box[record.Cap] = append(q.Box[record.Cap], record.At(key.CapNs))
		}
	}
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	return &q.Box
}

// TestHeadScanOfPairs asks a head for hundreds of devices and caps.
func TestHeadScanOfPairs(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 300, 5000, 40_000} {
		rows := hashed(rng, n)
		h := NewHead(NewWatermarks())
		insert(rng, h, rows)
		for range 40 {
			x := pairs(t, rng, rows)
			below := rng.Int64N(int64(n)*3 + 2)
			if rng.IntN(2) == 0 {
				below = record.Acq.Max()
			}
			checkScan(t, h, rows, x, below, rng.IntN(2) == 0)
			h.FindSuperseded(x, nil)
			checkLatest(t, h, x, record.Acq.Max(), shownIn(rows, x))
		}
	}
}

// shownIn returns the acqs of the newest versions in a box, less tombstones, by a map.
func shownIn(rows *record.Batch, x *record.Box) (acqs []int64) {
	newest := map[record.Key]int{} // without acq -> the row
	for i := range rows.Len() {
		key := rows.Key(i)
		if key.AcqNs = 0; x.Contains(key) {
			newest[key] = i
		}
	}
	for _, i := range newest {
		if !rows.Tomb(i) {
			acqs = append(acqs, rows.AcqNs[i])
		}
	}
	slices.Sort(acqs)
	return acqs
}

// TestClearFalseOfHashes clears the flags of rows that supersede no other, however many cells there
// are, and of no row that supersedes one.
func TestClearFalseOfHashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	older := NewWatermarks()
	for i := range older {
		older[i] = record.Cap.Max() - 1
	}
	h, rows, seen := NewHead(older), hashed(rng, 20_000), map[record.Key]bool{}
	again := 0
	for from := 0; from < rows.Len(); {
		to := min(rows.Len(), from+1+rng.IntN(4000))
		h.Insert(part(rows, from, to))
		h.ClearFalse(func([]SeriesCap) {})
		from = to
	}
	flags := h.ReadAll(new(record.Batch))
	flagged := 0
	for i := range rows.Len() {
		key := rows.Key(i)
		key.AcqNs = 0
		flag := flags[i>>6]>>(i&63)&1 == 1
		if (seen[key] || rows.Tomb(i)) && !flag {
			t.Fatalf("%v supersedes a row and is not flagged", key)
		}
		if seen[key] {
			again++
		}
		if flag {
			flagged++
		}
		seen[key] = true
	}
	t.Logf("%d of %d rows are flagged", flagged, rows.Len())
	if flagged > rows.Len()*2/3 {
		t.Errorf("%d of %d rows are flagged, and %d supersede one", flagged, rows.Len(), again)
	}
}
