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

// rowsOfBatch is how many records a batch of a fault test has, one for each of this many devices.
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
	k := record.Key{CID: n.writer, MID: int64(n.i) << 8, MOID: 1, CapNs: int64(n.seq)}
	if n.seq%2 == 0 {
		k.MOID, k.CapNs = 2, int64(n.seq/8)+1
	}
	return k
}

func (n rowName) payload() []byte {
	out := binary.LittleEndian.AppendUint64(nil, n.seq)
	return binary.LittleEndian.AppendUint64(out, uint64(n.i))
}

// nameOf reads the name of a row; ok is false for one that no one sent.
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

// batchFate is what is known of a batch.
type batchFate struct {
	acked          bool
	fromNs, tillNs int64 // acqs of the answer; both 0 when the writer does not tell
}

// history is what writers sent and what they were answered.
type history struct {
	mu      sync.Mutex
	batches map[int32][]batchFate // by writer and sequence - 1
	lastNs  int64                 // greatest acq that was answered
}

func newHistory() *history { return &history{batches: map[int32][]batchFate{}} }

func (h *history) sent(writer int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches[writer] = append(h.batches[writer], batchFate{})
}

func (h *history) acked(writer int32, seq uint64, reply wire.PutReply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches[writer][seq-1] = batchFate{true, reply.FirstAcqNs, reply.LastAcqNs}
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

// tally is what a reader found.
type tally struct {
	name  string
	acqs  map[int32]*columns // by writer
	wrong []string           // the first findings
	rows  int
}

// columns are the acqs of the records of each device, by batch, 0 for none: a reader of one group
// finds some devices of each batch.
type columns [rowsOfBatch][]int64

const maxFindings = 20

func newTally(name string) *tally {
	return &tally{name: name, acqs: map[int32]*columns{}}
}

// of returns the columns of a writer.
func (t *tally) of(writer int32) *columns {
	c := t.acqs[writer]
	if c == nil {
		c = new(columns)
		t.acqs[writer] = c
	}
	return c
}

// batches returns how many batches there are, some of which may have no records.
func (c *columns) batches() (n int) {
	for i := range c {
		n = max(n, len(c[i]))
	}
	return n
}

// at returns the acq of a record, 0 for none.
func (c *columns) at(batch, i int) int64 {
	if batch < len(c[i]) {
		return c[i][batch]
	}
	return 0
}

// batch returns the acqs of a batch, and whether it has records.
func (c *columns) batch(s int) (acqs [rowsOfBatch]int64, some bool) {
	for i := range acqs {
		acqs[i] = c.at(s, i)
		some = some || acqs[i] != 0
	}
	return acqs, some
}

// set notes the acq of a record and returns the one that it had.
func (c *columns) set(batch, i int, acq int64) (before int64) {
	for len(c[i]) <= batch {
		c[i] = append(c[i], 0)
	}
	before, c[i][batch] = c[i][batch], acq
	return before
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
	if before := t.of(n.writer).set(int(n.seq-1), n.i, k.AcqNs); before != 0 {
		t.finding("twice: %+v at acq %d and %d", n, before, k.AcqNs)
	}
}

// compare finds what was acknowledged and is not there as often as once, what is there and was
// never sent, and acqs other than those of the answer or in another order than that of sending.
func (t *tally) compare(h *history) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for writer, c := range t.acqs {
		if n := c.batches(); n > len(h.batches[writer]) {
			t.finding("writer %d: batch %d was never sent", writer, n)
		}
	}
	for writer, fates := range h.batches {
		var last [rowsOfBatch]int64
		for s, p := range fates {
			if acqs, some := t.of(writer).batch(s); some {
				t.compareBatch(rowName{writer: writer, seq: uint64(s + 1)}, &acqs, p, &last)
			} else if p.acked {
				t.finding("lost: writer %d: batch %d, all of it", writer, s+1)
			}
		}
	}
	return t.wrong
}

func (t *tally) compareBatch(n rowName, acqs *[rowsOfBatch]int64, p batchFate,
	last *[rowsOfBatch]int64) {
	for i, acq := range acqs {
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

// join adds what another tally has, of other groups.
func (t *tally) join(other *tally) {
	t.rows += other.rows
	for writer, c := range other.acqs {
		for i, column := range c {
			for s, acq := range column {
				if acq == 0 {
					continue
				}
				if before := t.of(writer).set(s, i, acq); before != 0 {
					t.finding("in two groups: %+v at acq %d and %d",
						rowName{writer, uint64(s + 1), i}, before, acq)
				}
			}
		}
	}
}

// sameAs finds where two readers differ, in what there is or in its acq.
func (t *tally) sameAs(other *tally) []string {
	writers := map[int32]bool{}
	for _, x := range []*tally{t, other} {
		for writer := range x.acqs {
			writers[writer] = true
		}
	}
	before := len(t.wrong)
	for writer := range writers {
		mine, theirs := t.of(writer), other.of(writer)
		for i := range mine {
			for s := range max(len(mine[i]), len(theirs[i])) {
				if a, b := mine.at(s, i), theirs.at(s, i); a != b {
					t.finding("differs from %s: %+v has acq %d, there %d", other.name,
						rowName{writer, uint64(s + 1), i}, a, b)
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
