// Package mergepolicy chooses which neighbouring segments of a shard are merged next.
//
// It does not know what a segment holds, nor how a merge is done: it is told of sizes and times,
// returns a [Run], and remembers which merges failed lately ([Failures]). Its main functions are
// [Due] and [Idle]. It starts no goroutine.
package mergepolicy

const (
	// FanIn is how many neighbours of about one size are merged at once. More would write each row
	// less often and leave more segments to ask.
	FanIn = 4
	// mostInputs are merged at once where sizes differ, or merges fall behind.
	mostInputs = 4 * FanIn
	// MaxRows keeps merged segments below 65,536 blocks, which are not all full.
	MaxRows = 100 << 20
	// maxBytes bounds the time that a merge takes, and the space on disk that it needs.
	maxBytes = 32 << 30
	// idleShare is how many times larger the largest segment may be than the others of an idle
	// merge together. It bounds how often a row is rewritten if every pause leads to a merge.
	idleShare = 4
)

// Segment is what the choice depends on.
type Segment struct {
	Rows, Bytes  int64
	MaxRows      int64 // of the segments that are made of such as this one
	Newest       Window
	Damaged      bool // known to be: no merge can read it
	Carried      bool // has blocks that were taken over as they are; an idle merge clusters them
	FailedLately bool // a merge that begins with it is left alone, as it failed lately
}

// Run are the neighbours [From, To) of some segments, and how many rows they have together. The
// zero value is none.
type Run struct {
	From, To int
	Rows     int64
}

// IsNone reports whether a run is none.
func (r Run) IsNone() bool { return r.To == 0 }

// Due returns the smallest run that is due: FanIn or more neighbours of which none is much larger
// than the others. Segments of an age window that has ended are merged as those of an idle store
// are.
func Due(all []Segment) (best Run) {
	for at, end := range eachUndamaged(all) {
		for from, to := range eachMergeable(all, at, end) {
			run := dueIn(all, from, to)
			if run.IsNone() && hasEnded(all, from, to, end) {
				run = idleIn(all, from, to)
			}
			if !run.IsNone() && (best.IsNone() || run.Rows < best.Rows) {
				best = run
			}
		}
	}
	return best
}

// Idle returns the run that a store at rest merges next.
func Idle(all []Segment) Run {
	for at, end := range eachUndamaged(all) {
		for from, to := range eachMergeable(all, at, end) {
			if run := idleIn(all, from, to); !run.IsNone() {
				return run
			}
		}
	}
	return Run{}
}

// Backlog returns how many segments of one window merges still make fewer: of the window that has
// most of them.
func Backlog(all []Segment) (most int) {
	for from, to := range eachMergeable(all, 0, len(all)) {
		most = max(most, countSmall(all[from:to]))
	}
	return most
}

// countSmall counts the segments that will be merged again.
func countSmall(all []Segment) (count int) {
	for _, seg := range all {
		if seg.Rows < seg.MaxRows/4 && seg.Bytes < maxBytes/4 {
			count++
		}
	}
	return count
}

// dueIn returns the most neighbours, FanIn or more, of the smallest size tier that has them, none
// of which has more than a third of their rows, or half where segments are many, and which may be
// tried; a tier's segments have up to four times as many rows as those of the one before. Rows are
// then rewritten a logarithmic number of times.
func dueIn(all []Segment, begin, end int) (best Run) {
	share := int64(3)
	if countSmall(all[begin:end]) > 2*FanIn {
		share = 2
	}
	for tier := range 16 {
		most := int64(1) << (2 * tier) // rows of a segment of this size tier at most
		for from := begin; from < end && best.IsNone(); from++ {
			rows, bytes, largest := int64(0), int64(0), int64(0)
			for to := from; to < min(end, from+mostInputs) && !all[from].FailedLately; to++ {
				more := all[to].Rows
				rows, bytes = rows+more, bytes+all[to].Bytes
				if more > most || rows > all[from].MaxRows || bytes > maxBytes {
					break
				}
				largest = max(largest, more)
				if to+1-from >= FanIn && share*largest <= rows {
					best = Run{from, to + 1, rows}
				}
			}
		}
	}
	return best
}

// idleIn returns the most neighbours that may be merged into one segment and of which none is
// idleShare times as large as the others together, unless it has carried blocks; the fewest rows
// first.
func idleIn(all []Segment, begin, end int) (best Run) {
	for from := begin; from < end; from++ {
		rows, bytes, largest := int64(0), int64(0), all[from]
		for to := from; to < end; to++ {
			more := all[to]
			rows, bytes = rows+more.Rows, bytes+more.Bytes
			if rows > all[from].MaxRows || bytes > maxBytes {
				break
			}
			if more.Rows > largest.Rows {
				largest = more
			}
			run := Run{from, to + 1, rows}
			count := run.To - run.From
			pays := largest.Carried || count > 1 && largest.Rows <= idleShare*(rows-largest.Rows)
			pays = pays && !all[from].FailedLately
			better := count > best.To-best.From || count == best.To-best.From && rows < best.Rows
			if pays && better {
				best = run
			}
		}
	}
	return best
}
