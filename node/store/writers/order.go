package writers

import "fmt"

// FindOrAdmit returns the result of the put of a replica with this sequence, which would be
// acquired at baseNs, if it was answered already; nil if it is new and there is space for its
// writer. It depends on nothing but what was recorded before, so it is the same on all replicas,
// whatever they forgot for good already.
//
// Errors: ErrTooOld, ErrTooMany.
func (t *Table[R]) FindOrAdmit(id Seq, baseNs int64) (known *Result, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.byWriter[id.Writer()]
	if w != nil && (w.lastAcq >= baseNs-IdleNs || id.Persistent) {
		return w.find(id)
	}
	if w != nil || t.checkSpace(id.Persistent, 0) == nil {
		return nil, nil
	}
	if t.eldest < baseNs-IdleNs {
		t.sweep(baseNs)
	}
	return nil, t.checkSpace(id.Persistent, 0)
}

// find returns the result of a sequence, nil when it is new.
func (w *writer) find(id Seq) (*Result, error) {
	for i := range w.results {
		if w.results[i].Seq == id.Seq {
			a := w.results[i]
			return &a, nil
		}
	}
	if w.high >= MaxResults && id.Seq <= w.high-MaxResults ||
		id.Persistent && id.Seq < w.high {
		return nil, fmt.Errorf("sequence %d, newest %d: %w", id.Seq, w.high, ErrTooOld)
	}
	return nil, nil
}

// sweep forgets writers as Expire does, and notes since when one of those that stay, or that come
// after it, was silent at most. The caller holds mu.
func (t *Table[R]) sweep(nowNs int64) {
	t.eldest = nowNs
	for of, w := range t.byWriter {
		switch {
		case of.Persistent:
		case w.lastAcq < nowNs-IdleNs:
			delete(t.byWriter, of)
		default:
			t.eldest = min(t.eldest, w.lastAcq)
		}
	}
}

// RecordInOrder stores a result of a replica, as its command is applied or from its log. What the
// file of writers held before is not recorded again, nor is what comes before it in the log.
func (t *Table[R]) RecordInOrder(id Seq, a Result) {
	t.mu.Lock()
	w := t.byWriter[id.Writer()]
	known := w != nil && a.FirstNs <= w.lastAcq
	if w != nil && w.lastAcq < a.FirstNs-IdleNs && !id.Persistent {
		delete(t.byWriter, id.Writer()) // it was silent for so long that it begins again
	}
	t.mu.Unlock()
	if !known {
		t.Record(id, a)
	}
}
