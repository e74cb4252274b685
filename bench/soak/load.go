package soak

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	loadBatch   = 1000
	loadDevices = 300
	quantities  = 5
	minute      = int64(time.Minute)
	maxLate     = int64(72 * time.Hour)
)

// tenant is one whose records come all the time and expire.
type tenant struct {
	cid int32

	mu      sync.Mutex
	acks    []ack // of the last minutes, in order of acq
	records int64 // acknowledged
	lastNs  int64 // greatest acq
}

// ack is an answer to a put.
type ack struct {
	firstNs, lastNs int64
	records         int64
	at              time.Time // before the put
}

const maxAcks = 64

func (t *tenant) add(a ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.acks = append(t.acks, a); len(t.acks) > 2*maxAcks {
		t.acks = append(t.acks[:0], t.acks[maxAcks:]...)
	}
	t.records += a.records
	t.lastNs = a.lastNs
}

func (t *tenant) total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.records
}

// latest returns the last acks, up to n, oldest first.
func (t *tenant) latest(n int) []ack {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, len(t.acks))
	return append([]ack(nil), t.acks[len(t.acks)-n:]...)
}

// load puts batches: most records are new, some late, some correct or delete earlier ones. Each
// batch is sent until it is answered, and some are sent twice.
func (s *Soak) load(t *tenant) begin {
	return func(w *worker) (step, end act) {
		var id [16]byte
		binary.LittleEndian.PutUint64(id[:], w.random.Uint64())
		var seq uint64
		var b, recent record.Batch
		sent := true
		return func(ctx context.Context) error {
			if sent {
				recent, b = b, recent
				fill(&b, &recent, t.cid, w)
				seq, sent = seq+1, false
			}
			began := time.Now()
			reply, err := w.db.Put(ctx, &b, id, seq)
			if err != nil {
				return err
			}
			if sent = true; int(reply.Records) != b.Len() {
				return fmt.Errorf("a put of %d records says %d", b.Len(), reply.Records)
			}
			t.add(ack{reply.FirstAcqNs, reply.LastAcqNs, int64(b.Len()), began})
			if seq%8 == 0 {
				return s.again(ctx, w.db, &b, id, seq, reply)
			}
			return nil
		}, nil
	}
}

// again repeats a put, which must be answered as before.
func (s *Soak) again(
	ctx context.Context, db *client.Client, b *record.Batch, id [16]byte, seq uint64,
	first wire.PutReply,
) error {
	reply, err := db.Put(ctx, b, id, seq)
	if later, refused := advice(err); later > 0 {
		return nil // it was not looked at
	} else if refused != nil {
		return refused
	}
	if first.Duplicate = reply.Duplicate; !reply.Duplicate || reply != first {
		return fmt.Errorf("a put was answered with %+v, and again with %+v", first, reply)
	}
	s.checked.Add(1)
	return nil
}

func fill(b, recent *record.Batch, cid int32, w *worker) {
	b.Reset()
	nowNs := time.Now().UnixNano()
	for range loadBatch {
		k := record.Key{CID: cid, MID: w.random.Int64N(loadDevices),
			MOID: 1 + w.random.Int32N(quantities), CapNs: nowNs - w.random.Int64N(minute)}
		switch luck := w.random.IntN(100); {
		case luck < 5:
			k.CapNs = nowNs - w.random.Int64N(maxLate)
		case luck < 9 && recent.Len() > 0:
			k = recent.Key(w.random.IntN(recent.Len()))
		case luck < 10 && recent.Len() > 0:
			b.AppendTomb(recent.Key(w.random.IntN(recent.Len())))
			continue
		}
		b.Append(k, number(nil, float64(w.random.IntN(800))/8))
	}
}

// count compares how many records there are of the last puts.
func (s *Soak) count(t *tenant) begin {
	return func(w *worker) (step, end act) {
		return func(ctx context.Context) error {
			acks := t.latest(1 + w.random.IntN(maxAcks))
			if len(acks) == 0 || t.cid == purgedTenant {
				return nil
			}
			var want int64
			for _, a := range acks {
				want += a.records
			}
			first, last := acks[0], acks[len(acks)-1]
			box := boxOf(t.cid)
			box[record.Acq] = record.RangeSet{{From: first.firstNs, To: last.lastNs + 1}}
			found, _, err := w.db.Count(ctx, &record.Query{Box: box})
			if err != nil {
				return err
			}
			if time.Since(first.at) >= s.opt.Age {
				s.unsure.Add(1) // some may have expired
				return nil
			}
			if int64(found) != want {
				return fmt.Errorf("tenant %d has %d records in acq [%d,%d], want %d", t.cid, found,
					first.firstNs, last.lastNs, want)
			}
			s.checked.Add(1)
			return nil
		}, nil
	}
}
