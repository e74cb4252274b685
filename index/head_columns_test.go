package index

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestHeadScanColumns: payloads of one length are copied by columns, across the borders of row
// groups and beside rows of other lengths and tombstones, which are not.
func TestHeadScanColumns(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, odd := range []int{0, 2000, 20} { // one row in this many is another one
		rows, h := new(record.Batch), NewHead(NewWatermarks())
		for from := 0; from < 2*rowGroupRows+500; {
			n := 1 + rng.IntN(9000)
			for range n {
				i := rows.Len()
				k := record.Key{CID: int32(i/7) % 2, MID: int64(i % 700), MOID: int32(i/700) % 3,
					CapNs: int64(i/2100) * int64(time.Minute), AcqNs: int64(i) * 3}
				if rng.IntN(50) == 0 {
					k.CapNs -= rng.Int64N(int64(time.Hour)) // flagged
				}
				payload := binary.LittleEndian.AppendUint64(nil, rng.Uint64())
				switch {
				case odd > 0 && rng.IntN(odd) == 0:
					rows.AppendStampedTomb(k)
				case odd > 0 && rng.IntN(odd) == 0:
					rows.AppendStamped(k, payload[:rng.IntN(8)])
				default:
					rows.AppendStamped(k, payload)
				}
			}
			piece := new(record.Batch)
			piece.AppendRows(rows, from, from+n)
			h.Insert(piece)
			from += n
		}
		for range 25 {
			x := box(t, rng, rows)
			below := rows.AcqNs[rng.IntN(rows.Len())] + rng.Int64N(3)
			if rng.IntN(2) == 0 {
				below = record.Acq.Max()
			}
			checkScan(t, h, rows, x, below, rng.IntN(3) == 0)
		}
	}
}
