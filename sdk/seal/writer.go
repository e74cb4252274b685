package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"time"
)

const (
	// maxChainAge is how long a writer stays in a chain: what a copy of a running machine could
	// repeat, and what a key of a chain opens, is not more.
	maxChainAge = 24 * time.Hour
	// maxClockJump is by how much the time of day and the time that a chain is old may differ: more
	// than clocks are corrected by in a day.
	maxClockJump = time.Minute
	// placeEvery is how often a writer looks whether it is still in the same process.
	placeEvery = time.Second
	// maxChainSeq is the last sequence number of a chain.
	maxChainSeq = math.MaxUint32
)

// Reading is what a writer seals.
type Reading struct {
	CapNs  int64
	Values []Value // of all fields, in the order of the schema
	Opaque []byte  // goes into the envelope; only with one
	// Correction marks a reading that corrects an earlier one of its cap.
	Correction bool
	// Before are the values that it corrects, for a correction by difference: its lanes hold what
	// changed, so a sum over all versions is right. It needs an envelope, and one writer of the
	// series that knows what it wrote.
	Before []Value
}

// Writer seals the readings of one series. It chooses chain and sequence number itself, as no two
// readings may have both in common: their difference would be readable. It keeps nothing on disk; a
// program that starts again begins another chain. To send a payload again, send the same bytes:
// sealing again makes another record. One goroutine uses it.
//
// A copy of a running machine (a snapshot that is resumed twice) repeats what its writers had not
// sent yet. A writer begins another chain each day, when the machine's clock jumped, and when it
// sees that it is another process or that the machine was booted again; more it cannot see.
type Writer struct {
	tenant *Tenant
	schema *Schema
	keys   seriesKeys
	header Header
	blank  []byte    // a lean payload with the header of the chain, and zeros
	place  string    // see whereabouts
	began  time.Time // of the chain
	dated  time.Time // the same by the clock that people set
	looked time.Time // when place was compared

	chain  *chainKeys
	pads   []*padStream // as chainKeys.pads
	macPad *padStream
	order  []*orderCipher
	equal  []tagMaker

	lanes   []wide // scratch
	address []byte // scratch
	inner   []byte // scratch
}

// tagMaker makes the equality tags of a field.
type tagMaker struct {
	period int64
	hash   *equalHash
}

// NewWriter returns a writer of a series, under the current key of the tenant.
func (t *Tenant) NewWriter(
	ctx context.Context, s *Schema, mid int64, moid int32,
) (*Writer, error) {
	if t.schemas[s.ID()] != s {
		return nil, fmt.Errorf("schema %d is not one of the tenant's", s.ID())
	}
	keyID, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.readyDevice(ctx, s, keyID, mid); err != nil {
		return nil, err
	}
	w := &Writer{tenant: t, schema: s}
	if w.keys, err = t.seriesKeys(ctx, s, keyID, mid, moid); err != nil {
		return nil, err
	}
	w.header = Header{Schema: s.ID(), KeyID: keyID, check: s.checked().check}
	for _, sec := range s.order {
		f := &s.def.Fields[sec.field]
		key := orderKeyOf(w.keys.of(f.Order.Scope), moid, s, f.ID)
		w.order = append(w.order, newOrderCipher(&key))
	}
	w.equal = make([]tagMaker, len(s.equal))
	w.newChain()
	return w, nil
}

// newChain begins a chain: a random number, and sequence numbers from 1.
func (w *Writer) newChain() {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it does not return where there is no randomness
	w.beginChain(binary.LittleEndian.Uint64(id[:]))
}

// beginChain begins a chain of a number that no other of the series has.
func (w *Writer) beginChain(id uint64) {
	w.header.Chain, w.header.Seq = id, 0
	w.place, w.began = whereabouts(), time.Now()
	w.looked, w.dated = w.began, w.began.Round(0) // without the monotonic reading
	w.blank = append(w.header.append(w.blank[:0]), make([]byte, w.schema.prefix-headerBytes)...)
	w.chain = newChainKeys(w.schema, &w.keys, w.header.Chain)
	w.pads = make([]*padStream, len(w.chain.pads))
	for i, p := range w.chain.pads {
		if p != nil {
			w.pads[i] = newPadStream(p, 1)
		}
	}
	if w.chain.macPad != nil {
		w.macPad = newPadStream(w.chain.macPad, 1)
	}
}

// whereabouts tells a process from its copies, as far as it can.
func whereabouts() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // of Linux only
	return fmt.Sprintf("%d %s", os.Getpid(), bytes.TrimSpace(boot))
}

// begin begins another chain where the present one must not go on: when it is old, when the clock
// of the machine jumped, as it does when a copy of it is resumed, and in another process.
func (w *Writer) begin() {
	now := time.Now()
	age, ran := now.Sub(w.dated), now.Sub(w.began)
	if age > maxChainAge || (age-ran).Abs() > maxClockJump {
		w.newChain()
		return
	}
	if now.Sub(w.looked) < placeEvery {
		return
	}
	w.looked = now
	if w.place != whereabouts() {
		w.newChain()
	}
}

// Append appends the payload of one reading. After an error nothing is appended.
func (w *Writer) Append(dst []byte, r Reading) ([]byte, error) {
	w.begin()
	return w.seal(dst, &r)
}

// AppendBatch appends the payloads of readings, which share memory. It stops at the first reading
// that cannot be sealed, and returns those before it with the error.
func (w *Writer) AppendBatch(dst [][]byte, readings []Reading) ([][]byte, error) {
	w.begin()
	size := 0
	for i := range readings {
		size += w.schema.prefix + len(readings[i].Opaque)
		if w.schema.def.Envelope {
			size += nonceBytes + gcmTagBytes
		}
	}
	all := make([]byte, 0, size)
	for i := range readings {
		from := len(all)
		var err error
		if all, err = w.seal(all, &readings[i]); err != nil {
			return dst, fmt.Errorf("reading %d: %w", i+1, err)
		}
		dst = append(dst, all[from:len(all):len(all)])
	}
	return dst, nil
}

func (w *Writer) seal(dst []byte, r *Reading) ([]byte, error) {
	if err := w.schema.Check(r); err != nil {
		return dst, err
	}
	if w.header.Seq == maxChainSeq {
		w.newChain()
	}
	w.header.Seq++
	s := w.schema
	flags := s.flags
	if r.Correction || r.Before != nil {
		flags |= flagCorrection
	}
	if r.Before != nil {
		flags |= flagDelta
	}
	from := len(dst)
	dst = append(dst, w.blank...)
	payload := dst[from:]
	binary.LittleEndian.PutUint32(payload[16:], w.header.Seq)
	payload[20] = flags
	w.putLanes(payload, r)
	w.putTags(payload, r)
	if s.def.Envelope {
		dst = w.putEnvelope(dst, from, r)
	}
	return dst, nil
}

// putLanes writes lanes and MAC.
func (w *Writer) putLanes(payload []byte, r *Reading) {
	s := w.schema
	for _, p := range w.pads {
		if p != nil {
			p.advance()
		}
	}
	if s.def.MAC != nil {
		w.lanes = s.laneValues(w.lanes[:0], r.CapNs, r.Values, r.Before)
		w.macPad.advance()
		row, before := w.macPad.pair(0)
		mac := w.chain.macKey().of(w.lanes).plus(parseElement(row)).minus(parseElement(before))
		mac.append(payload[s.mac:s.mac])
	}
	for i := range s.lanes {
		l := &s.lanes[i]
		row, before := w.pads[l.field].pair(l.pad)
		v := s.laneValue(l, r.CapNs, r.Values, r.Before)
		if l.width == 8 {
			binary.LittleEndian.PutUint64(payload[l.offset:], v.lo+
				binary.LittleEndian.Uint64(row)-binary.LittleEndian.Uint64(before))
			continue
		}
		v = v.plus(loadLane(row, l.width)).minus(loadLane(before, l.width))
		storeLane(payload[l.offset:], l.width, v)
	}
}

// putTags writes order and equality tags.
func (w *Writer) putTags(payload []byte, r *Reading) {
	s := w.schema
	for i, sec := range s.order {
		w.order[i].tag(payload[sec.offset:sec.offset], &s.def.Fields[sec.field], sec.width,
			r.Values[sec.field].Number)
	}
	for i, sec := range s.equal {
		f := &s.def.Fields[sec.field]
		w.tags(i, f, f.Equal.period(r.CapNs)).tag(payload[sec.offset:sec.offset], f.Kind,
			r.Values[sec.field])
	}
}

// tags returns the hash of a field in a period.
func (w *Writer) tags(i int, f *Field, period int64) *equalHash {
	if m := &w.equal[i]; m.hash == nil || m.period != period {
		key := equalKeyOf(w.keys.of(f.Equal.Scope), w.keys.moid, w.schema, f.ID, period)
		m.period, m.hash = period, newEqualHash(&key)
	}
	return w.equal[i].hash
}

// putEnvelope appends the envelope: the values that are not to be had from lanes, and the opaque
// bytes.
func (w *Writer) putEnvelope(dst []byte, from int, r *Reading) []byte {
	w.inner = w.inner[:0]
	for i, v := range r.Values {
		switch f := &w.schema.def.Fields[i]; {
		case f.Kind == Text:
			w.inner = binary.AppendUvarint(w.inner, uint64(len(v.Text)))
			w.inner = append(w.inner, v.Text...)
		case !f.Sum || r.Before != nil:
			w.inner = binary.AppendVarint(w.inner, v.Number)
		}
	}
	w.inner = append(w.inner, r.Opaque...)
	w.address = addressed(w.address[:0], w.tenant.cid, &w.keys, r.CapNs, dst[from:])
	return w.chain.envelope().Seal(dst, nil, w.inner, w.address)
}
