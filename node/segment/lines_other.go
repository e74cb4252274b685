//go:build !amd64

package segment

func countSteps(starts, behind []int64, from, to int64) int64 {
	return countStepsByRun(starts, behind, from, to)
}

func writePositions(out []uint32, lo int) {
	for k := range out {
		out[k] = uint32(lo + k)
	}
}

func writeLine(out []int64, base, slope int64, add bool) {
	writeLineByRow(out, base, slope, add)
}

func writePieces(out []int64, pieces []piece, bases, slopes []int64, add bool) {
	writePiecesByRow(out, pieces, bases, slopes, add)
}
