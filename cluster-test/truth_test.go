package cluster_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// rowsOfBatch is how many records a batch of a fault test has, one for each of so many devices.
const rowsOfBatch = 500

// rowName says which record a row is: number i of a batch of a writer.
type rowName struct {
	writer int32
	seq    uint64
	i      int
}

// key is that of a record. Every second batch is of readings that three others have, too: these are
// corrections.
func (n rowName) key() record.Key {
	k := record.Key{CID: n.writer, MID: int64(n.i) << 6, MOID: 1, CapNs: int64(n.seq)}
	if n.seq%2 == 0 {
		k.MOID, k.CapNs = 2, int64(n.seq/8)+1
	}
	return k
}

func (n rowName) payload() []byte {
	out := binary.LittleEndian.AppendUint64(nil, n.seq)
	return binary.LittleEndian.AppendUint64(out, uint64(n.i))
}

// nameOf reads the name of a row; ok is false for one that nobody sent.
func nameOf(k record.Key, payload []byte) (n rowName, ok bool) {
	if len(payload) != 16 {
		return n, false
	}
	n = rowName{k.CID, binary.LittleEndian.Uint64(payload),
		int(binary.LittleEndian.Uint64(payload[8:]))}
	k.AcqNs = 0
	return n, n.i < rowsOfBatch && n.key() == k
}

func batchOf(writer int32, seq uint64) *record.Batch {
	b := &record.Batch{}
	for i := range rowsOfBatch {
		n := rowName{writer, seq, i}
		b.Append(n.key(), n.payload())
	}
	return b
}

// promise is what is known of a batch.
type promise struct {
	acked          bool
	fromNs, tillNs int64 // acqs of the answer; both 0 when the writer does not tell
}

// history is what writers sent and what they were answered.
type history struct {
	mu      sync.Mutex
	batches map[int32][]promise // by writer and sequence - 1
	lastNs  int64               // greatest acq that was answered
}

func newHistory() *history { return &history{batches: map[int32][]promise{}} }

func (h *history) sent(writer int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches[writer] = append(h.batches[writer], promise{})
}

func (h *history) acked(writer int32, seq uint64, reply wire.PutReply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches[writer][seq-1] = promise{true, reply.FirstAcqNs, reply.LastAcqNs}
	h.lastNs = max(h.lastNs, reply.LastAcqNs)
}

// at returns how much a writer has sent, how much of it was answered without a gap, and the
// greatest acq that anybody was answered.
func (h *history) at(writer int32) (sent, acked int, lastNs int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.batches[writer]
	for acked = len(all); acked > 0 && !all[acked-1].acked; acked-- {
	}
	return len(all), acked, h.lastNs
}

func (h *history) records() (acked, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.batches {
		for _, p := range all {
			if p.acked {
				acked += rowsOfBatch
			} else {
				unknown += rowsOfBatch
			}
		}
	}
	return acked, unknown
}

// tally is what a reader found: the acq of each record, 0 for none.
type tally struct {
	name    string
	batches map[int32][]*[rowsOfBatch]int64
	wrong   []string // the first findings
	rows    int
}

const maxFindings = 20

func newTally(name string) *tally {
	return &tally{name: name, batches: map[int32][]*[rowsOfBatch]int64{}}
}

func (t *tally) finding(format string, args ...any) {
	if len(t.wrong) < maxFindings {
		t.wrong = append(t.wrong, t.name+": "+fmt.Sprintf(format, args...))
	}
}

// add notes a row. Those of the registers and of what is erased are not the tally's.
func (t *tally) add(k record.Key, payload []byte) {
	if k.CID >= firstSpecial {
		return
	}
	n, ok := nameOf(k, payload)
	if !ok || n.seq == 0 || n.seq > 1<<32 {
		t.finding("a record that nobody sent: %+v %x", k, payload)
		return
	}
	t.rows++
	all := t.batches[n.writer]
	for uint64(len(all)) < n.seq {
		all = append(all, nil)
	}
	t.batches[n.writer] = all
	b := all[n.seq-1]
	if b == nil {
		b = new([rowsOfBatch]int64)
		all[n.seq-1] = b
	}
	if b[n.i] != 0 {
		t.finding("twice: %+v at acq %d and %d", n, b[n.i], k.AcqNs)
	}
	b[n.i] = k.AcqNs
}

// holdAgainst finds what was acknowledged and is not there as often as once, what is there and was
// never sent, and acqs other than those of the answer or in another order than that of sending.
func (t *tally) holdAgainst(h *history) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for writer, all := range t.batches {
		if len(all) > len(h.batches[writer]) {
			t.finding("writer %d: batch %d was never sent", writer, len(all))
		}
	}
	for writer, promises := range h.batches {
		var last [rowsOfBatch]int64
		for s, p := range promises {
			if s < len(t.batches[writer]) && t.batches[writer][s] != nil {
				t.holdBatch(rowName{writer: writer, seq: uint64(s + 1)}, p, &last)
			} else if p.acked {
				t.finding("lost: writer %d: batch %d, all of it", writer, s+1)
			}
		}
	}
	return t.wrong
}

func (t *tally) holdBatch(n rowName, p promise, last *[rowsOfBatch]int64) {
	for i, acq := range t.batches[n.writer][n.seq-1] {
		n.i = i
		switch {
		case acq == 0 && p.acked:
			t.finding("lost: %+v", n)
		case acq == 0:
		case acq <= last[i]:
			t.finding("order: %+v has acq %d, and an earlier one of its device %d", n, acq, last[i])
		case p.tillNs != 0 && (acq < p.fromNs || acq > p.tillNs):
			t.finding("acq %d of %+v, which was answered [%d, %d]", acq, n, p.fromNs, p.tillNs)
		}
		last[i] = max(last[i], acq)
	}
}

// sameAs finds where two readers differ, in what there is or in its acq.
func (t *tally) sameAs(other *tally) []string {
	var none [rowsOfBatch]int64
	writers := map[int32]int{}
	for _, x := range []*tally{t, other} {
		for writer, all := range x.batches {
			writers[writer] = max(writers[writer], len(all))
		}
	}
	before := len(t.wrong)
	for writer, count := range writers {
		for s := range count {
			a, b := &none, &none
			if mine := t.batches[writer]; s < len(mine) && mine[s] != nil {
				a = mine[s]
			}
			if theirs := other.batches[writer]; s < len(theirs) && theirs[s] != nil {
				b = theirs[s]
			}
			for i := range a {
				if a[i] != b[i] {
					t.finding("differs from %s: %+v has acq %d, there %d", other.name,
						rowName{writer, uint64(s + 1), i}, a[i], b[i])
				}
			}
		}
	}
	return t.wrong[before:]
}

// risesStrictly finds acqs that a group gave out twice.
func risesStrictly(name string, acqs []int64) (wrong []string) {
	slices.SortFunc(acqs, cmp.Compare)
	for i := 1; i < len(acqs) && len(wrong) < maxFindings; i++ {
		if acqs[i] == acqs[i-1] {
			wrong = append(wrong, fmt.Sprintf("%s: two records have acq %d", name, acqs[i]))
		}
	}
	return wrong
}
