package segment

import "unsafe"

//go:noescape
func fillLine(out *int64, n int, base, slope int64)

//go:noescape
func addLine(out *int64, n int, base, slope int64)

//go:noescape
func fillPieces(out *int64, pieces *piece, n int, bases, slopes *int64)

//go:noescape
func addPieces(out *int64, pieces *piece, n int, bases, slopes *int64)

// countEights is countStepsByRun of eight runs at a time, n in all.
//
//go:noescape
func countEights(starts, behind *int64, n int, from, to int64) (rows int64)

// countSteps is countStepsByRun by vectors.
func countSteps(starts, behind []int64, from, to int64) (rows int64) {
	if t := filterTables(); t != nil && t.sixteens && len(behind) >= 8 {
		n := len(behind) &^ 7
		rows = countEights(&starts[0], &behind[0], n, from, to)
		starts, behind = starts[n:], behind[n:]
	}
	return rows + countStepsByRun(starts, behind, from, to)
}

// writePositions writes lo, lo + 1 and so on.
func writePositions(out []uint32, lo int) {
	if pairs := len(out) / 2; pairs > 0 { // each is a word
		const upper, step = 1 << 32, 2<<32 | 2
		words := unsafe.Slice((*int64)(unsafe.Pointer(&out[0])), pairs)
		writeLine(words, int64(lo)|int64(lo+1)*upper, step, false)
	}
	if n := len(out); n%2 == 1 {
		out[n-1] = uint32(lo + n - 1)
	}
}

// writeLine writes base + slope*i to out, or adds it to what is there.
func writeLine(out []int64, base, slope int64, add bool) {
	if len(out) < 8 {
		writeLineByRow(out, base, slope, add)
		return
	}
	switch t := filterTables(); {
	case t == nil || !t.sixteens:
		writeLineByRow(out, base, slope, add)
	case add:
		addLine(&out[0], len(out), base, slope)
	default:
		fillLine(&out[0], len(out), base, slope)
	}
}

// writePieces is writePiecesByRow by vectors. Rows of pieces are those of out together, and their
// runs have bases and slopes.
func writePieces(out []int64, pieces []piece, bases, slopes []int64, add bool) {
	t := filterTables()
	switch {
	case t == nil || !t.sixteens || len(pieces) == 0:
		writePiecesByRow(out, pieces, bases, slopes, add)
	case add:
		addPieces(&out[0], &pieces[0], len(pieces), &bases[0], unsafe.SliceData(slopes))
	default:
		fillPieces(&out[0], &pieces[0], len(pieces), &bases[0], unsafe.SliceData(slopes))
	}
}
