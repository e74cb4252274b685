package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/crc32c"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	maxAnswers = layout.MaxAnswers
	// maxWriters bounds the table; a writer costs about 100 bytes plus 24 per answer.
	maxWriters = 1 << 20
	// maxLasting bounds those that are never forgotten, beside the others: 56 bytes of the file
	// each, which is written anew when log files go, so 7 MB. A new one beyond it is refused, as to
	// forget one that may come back would store its batch twice.
	maxLasting = 1 << 17
	// writerIdleNs is how long the answers of a silent writer are kept, measured in acq; those of
	// a lasting one are kept for ever.
	writerIdleNs = int64(7 * 24 * time.Hour)
)

// WriterSeq identifies a batch for exactly-once puts. The zero ID asks for no protection.
type WriterSeq struct {
	ID  [16]byte
	Seq uint64
}

type answer struct {
	seq     uint64
	first   int64
	records uint32
}

// until returns the acq above those of its records.
func (a answer) until() int64 { return a.first + int64(a.records) }

type writer struct {
	high    uint64
	answers []answer // at most maxAnswers, in order of arrival
	lastAcq int64
}

// writers remembers the answers that were given, so that a retry gets the first one again.
type writers struct {
	mu       sync.Mutex
	byID     map[[16]byte]*writer
	lasting  int // of byID
	inflight map[WriterSeq]*putRequest
	// chained are the writers of which a batch is in flight that follows another one.
	chained map[[16]byte]bool
	eldest  int64 // none was silent for longer than since this acq, as of the last sweep
}

func newWriters() *writers {
	return &writers{byID: map[[16]byte]*writer{}, inflight: map[WriterSeq]*putRequest{},
		chained: map[[16]byte]bool{}}
}

// admit decides what a put with this sequence is: already answered (known), in flight (wait for
// the other request), or new, in which case r is registered as in flight.
func (t *writers) admit(r *putRequest) (known *answer, other *putRequest, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.inflight[r.writer]; o != nil {
		return nil, o, nil
	}
	w := t.byID[r.writer.ID]
	if w != nil {
		known, err = w.find(r.writer)
	}
	if known == nil && r.previous != nil {
		err = cmp.Or(t.follows(r.writer.ID, *r.previous), err)
	}
	if known != nil || err != nil {
		return known, nil, err
	}
	if w == nil {
		if err := t.room(r.writer.ID, len(t.inflight)); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, t.fly(r)
}

// fly registers a request that is in flight from now on; mu is held.
func (t *writers) fly(r *putRequest) error {
	if r.previous != nil {
		if t.chained[r.writer.ID] {
			return fmt.Errorf("another batch of the writer is under way: %w", ErrOverloaded)
		}
		t.chained[r.writer.ID] = true
	}
	t.inflight[r.writer] = r
	return nil
}

// land takes a request out of flight; mu is held.
func (t *writers) land(id WriterSeq) {
	if r := t.inflight[id]; r != nil && r.previous != nil {
		delete(t.chained, id.ID)
	}
	delete(t.inflight, id)
}

// follows says why the newest batch of a writer is not the one with a sequence; mu is held.
func (t *writers) follows(id [16]byte, previous uint64) error {
	newest := uint64(0)
	if w := t.byID[id]; w != nil {
		newest = w.high
	}
	if newest != previous {
		return &GapError{Previous: previous, Newest: newest}
	}
	return nil
}

// room says why the table has none for a new writer beside some more; mu is held.
//
// Errors: ErrTooManyWriters.
func (t *writers) room(id [16]byte, more int) error {
	switch lasting := record.Lasting(id); {
	case lasting && t.lasting+more >= maxLasting:
		return fmt.Errorf("%d edges, which are never forgotten: %w; let what is new ship to "+
			"another node or cluster", maxLasting, ErrTooManyWriters)
	case !lasting && len(t.byID)-t.lasting+more >= maxWriters:
		return fmt.Errorf("%d writers in the last %v: %w", maxWriters,
			time.Duration(writerIdleNs), ErrTooManyWriters)
	}
	return nil
}

// abandon takes a request that failed out of flight.
func (t *writers) abandon(id WriterSeq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.land(id)
}

// record stores an answer, from a commit or from the log.
func (t *writers) record(id WriterSeq, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.land(id)
	w := t.byID[id.ID]
	if w == nil {
		w = &writer{}
		t.byID[id.ID] = w
		if record.Lasting(id.ID) {
			t.lasting++
		}
	}
	for i := range w.answers {
		if w.answers[i].seq == a.seq {
			return
		}
	}
	if record.Lasting(id.ID) {
		if a.seq >= w.high {
			w.high, w.lastAcq, w.answers = a.seq, max(w.lastAcq, a.first), []answer{a}
		}
		return
	}
	w.high = max(w.high, a.seq)
	w.lastAcq = max(w.lastAcq, a.first)
	if len(w.answers) < maxAnswers {
		w.answers = append(w.answers, a)
		return
	}
	oldest := 0
	for i := range w.answers {
		if w.answers[i].seq < w.answers[oldest].seq {
			oldest = i
		}
	}
	// After a crash the log repeats what was overtaken long ago; that must not drive out others.
	if w.answers[oldest].seq < a.seq {
		w.answers[oldest] = a
	}
}

func (t *writers) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// expire forgets writers that were silent for writerIdleNs before now.
func (t *writers) expire(nowNs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(nowNs)
}

// save writes the table to dir, so that log files which also hold it may go.
func (t *writers) save(dir string) error {
	return replaceWriters(dir, t.encode(math.MaxInt64))
}

func replaceWriters(dir string, table []byte) error {
	return durable.ReplaceFile(filepath.Join(dir, layout.WritersFile), table)
}

// encode returns the file, with those answers whose records all have an acq below untilNs. Of a
// lasting writer whose newest batch is not below, nothing is known of what is there.
func (t *writers) encode(untilNs int64) []byte {
	t.mu.Lock()
	buf := binary.LittleEndian.AppendUint32(nil, layout.WritersMagic)
	count, countAt := uint32(0), len(buf)
	buf = binary.LittleEndian.AppendUint32(buf, 0)
	for id, w := range t.byID {
		if record.Lasting(id) && !slices.ContainsFunc(w.answers, func(a answer) bool {
			return a.seq == w.high && a.until() <= untilNs
		}) {
			continue
		}
		count++
		buf = append(buf, id[:]...)
		buf = binary.LittleEndian.AppendUint64(buf, w.high)
		buf = binary.LittleEndian.AppendUint64(buf, uint64(w.lastAcq))
		at, n := len(buf), uint32(0)
		buf = binary.LittleEndian.AppendUint32(buf, 0)
		for _, a := range w.answers {
			if a.until() > untilNs {
				continue
			}
			n++
			buf = binary.LittleEndian.AppendUint64(buf, a.seq)
			buf = binary.LittleEndian.AppendUint64(buf, uint64(a.first))
			buf = binary.LittleEndian.AppendUint32(buf, a.records)
		}
		binary.LittleEndian.PutUint32(buf[at:], n)
	}
	t.mu.Unlock()
	binary.LittleEndian.PutUint32(buf[countAt:], count)
	return binary.LittleEndian.AppendUint32(buf, crc32c.Sum(buf))
}

// load reads what save wrote; a missing file is an empty table.
func (t *writers) load(dir string) error {
	name := filepath.Join(dir, layout.WritersFile)
	buf, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read writers: %w", err)
	}
	table, err := parseWriters(buf)
	if err != nil {
		return corrupt(name, 0, err.Error())
	}
	t.byID, t.lasting = table, 0
	for id := range table {
		if record.Lasting(id) {
			t.lasting++
		}
	}
	return nil
}

// parseWriters reads what encode wrote.
func parseWriters(buf []byte) (map[[16]byte]*writer, error) {
	table := map[[16]byte]*writer{}
	err := layout.ParseWriters(buf, func(w *layout.Writer) {
		known := &writer{high: w.High, lastAcq: w.LastAcqNs}
		for _, a := range w.Answers {
			known.answers = append(known.answers,
				answer{seq: a.Seq, first: a.FirstNs, records: a.Records})
		}
		table[w.ID] = known
	})
	if err != nil {
		return nil, err
	}
	return table, nil
}
