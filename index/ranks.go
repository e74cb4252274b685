package index

import "sort"

// run is a stretch of rows with consecutive acquisition times, usually a commit batch.
type run struct {
	rank  uint32
	acqNs int64
}

// strideShift: one entry of the stride index per 256 rows.
const strideShift = 8

// rankTable turns ranks into acquisition times and back. Rows with the same acquisition time follow
// one another, each in a run of its own.
type rankTable struct {
	runs   []run
	stride []uint32 // rank >> strideShift -> the run that holds the first such rank
	shared bool     // there are rows with the same acquisition time
}

func buildRanks(acqNs []int64) rankTable {
	var t rankTable
	for i, acq := range acqNs {
		if i == 0 || acq != acqNs[i-1]+1 {
			t.runs = append(t.runs, run{uint32(i), acq})
		}
		t.shared = t.shared || i > 0 && acq == acqNs[i-1]
	}
	t.index(uint32(len(acqNs)))
	return t
}

func (t *rankTable) index(rows uint32) {
	t.stride = make([]uint32, 0, rows>>strideShift+1)
	r := uint32(0)
	for rank := uint64(0); rank < uint64(rows); rank += 1 << strideShift {
		for int(r)+1 < len(t.runs) && uint64(t.runs[r+1].rank) <= rank {
			r++
		}
		t.stride = append(t.stride, r)
	}
}

func (t *rankTable) acqOf(rank uint32) int64 {
	r := int(t.stride[rank>>strideShift])
	for r+1 < len(t.runs) && t.runs[r+1].rank <= rank {
		r++
	}
	return t.runs[r].acqNs + int64(rank-t.runs[r].rank)
}

// below returns how many of the rows have an acq below a moment.
func (t *rankTable) below(acqNs int64, rows uint32) uint32 {
	r := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].acqNs >= acqNs }) - 1
	if r < 0 {
		return 0
	}
	end := rows
	if r+1 < len(t.runs) {
		end = t.runs[r+1].rank
	}
	if ahead := uint64(acqNs) - uint64(t.runs[r].acqNs); ahead < uint64(end-t.runs[r].rank) {
		return t.runs[r].rank + uint32(ahead)
	}
	return end
}
