package member

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// Tenants by what happens to their records.
const (
	simErased   = 50 // erases
	simPurged   = 51 // purges
	simKept     = 60 // a retention of an hour, which no run lasts
	simExpiring = 61 // a retention of some seconds
	simRegular  = 40 // cids below it: nothing
)

// simName is what a record is known by: each is written once.
type simName struct {
	cid int32
	cap int64
}

// simAck is what the answer to a put said of a record, or of a box that was hidden.
type simAck struct {
	mid                 int64
	firstNs, lastNs     int64     // the acq is one of these
	asked, acknowledged time.Time // by the clock of the simulation
}

// simHiding is an erase or a purge, of caps below one.
type simHiding struct {
	cid                 int32
	below               int64
	asked, acknowledged time.Time // zero: that was not answered
}

// simHistory is what clients know.
type simHistory struct {
	mu      sync.Mutex // guards what follows
	acked   map[simName]simAck
	order   []simName
	hidings []simHiding
	asOf    []simPast
}

// simPast is an answer: the digest of the records of some tenants with an acq below one.
type simPast struct {
	atNs int64
	sum  digest.Slice
	from string
}

func newSimHistory() *simHistory { return &simHistory{acked: map[simName]simAck{}} }

// startClients lets clients begin.
func (s *simulation) startClients() {
	cids := []int32{simErased, simPurged, simKept, simExpiring}
	for i := range int32(s.config.writers) {
		cids = append(cids, i+1)
	}
	for _, cid := range cids {
		w := &simWriter{s: s, cid: cid, rng: s.client()}
		w.id[0], w.id[1] = byte(cid), 1
		s.writers = append(s.writers, w)
		s.clients.Go(w.run)
	}
	for range 2 {
		f := &simFeed{s: s, rng: s.client(), rows: map[simName]int64{}}
		s.feeds = append(s.feeds, f)
		s.clients.Go(f.run)
	}
	for _, do := range []func(*rand.Rand){s.readLatest, s.answerAsOf, s.hide, s.setRetention} {
		rng := s.client()
		s.clients.Go(func() { do(rng) })
	}
}

func (s *simulation) client() *rand.Rand { return rand.New(rand.NewPCG(s.plan.Uint64(), 1)) }

// rest waits, and reports false when clients are to begin nothing new.
func (s *simulation) rest(rng *rand.Rand, about time.Duration) bool {
	select {
	case <-time.After(upTo(rng, 2*about)):
		return !s.isHalted()
	case <-s.halt:
		return false
	}
}

// patience is the context of one attempt of a client.
func (s *simulation) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.life, 30*time.Second)
}

// someone returns a process that a client may ask, nil for none.
func (s *simulation) someone(rng *rand.Rand) *simProcess {
	running := s.running()
	if len(running) == 0 {
		return nil
	}
	p := running[rng.IntN(len(running))]
	if p.member.Load().View().DataGroups() == 0 {
		return nil
	}
	return p
}

// simWriter stores one batch after the other, each again and again until it is acknowledged.
type simWriter struct {
	s   *simulation
	rng *rand.Rand
	cid int32
	id  [16]byte

	seq uint64
	cap int64

	mu         sync.Mutex // guards answeredAt
	answeredAt time.Time
}

func (w *simWriter) run() {
	for w.s.rest(w.rng, w.s.config.think) {
		b := &record.Batch{}
		for range 1 + w.rng.IntN(4) {
			b.Append(record.Key{CID: w.cid, MID: w.rng.Int64N(12) << 8, MOID: 1,
				CapNs: w.nextCap()}, simPayload(w.rng))
		}
		w.seq++
		asked := time.Now()
		for !w.put(b, asked) {
			select {
			case <-w.s.life.Done():
				return
			case <-time.After(upTo(w.rng, 100*time.Millisecond)):
			}
		}
	}
}

// nextCap returns a cap that no other record of the writer has: the time, by the right clock.
func (w *simWriter) nextCap() int64 {
	w.cap = max(w.cap+1, time.Now().UnixNano())
	return w.cap
}

func simPayload(rng *rand.Rand) []byte {
	size := rng.IntN(60)
	if rng.IntN(40) == 0 {
		size = rng.IntN(20000)
	}
	out := make([]byte, size)
	for i := range out {
		out[i] = 'x'
	}
	return out
}

// put sends a batch through one node, and reports whether it was acknowledged.
func (w *simWriter) put(b *record.Batch, asked time.Time) bool {
	p := w.s.someone(w.rng)
	if p == nil {
		return false
	}
	ctx, cancel := w.s.patience()
	defer cancel()
	writer := store.WriterSeq{ID: w.id, Seq: w.seq}
	if w.s.bug == bugTwice {
		writer.ID, writer.Seq = [16]byte{}, 0
	}
	acked := map[simName]simAck{}
	rest := b
	for began := time.Now(); rest.Len() > 0; {
		var err error
		rest, err = w.parts(ctx, p, rest, writer, asked, acked)
		if p.ended() || err != nil && !errors.Is(err, store.ErrOtherSlots) ||
			time.Since(began) > 15*time.Second {
			return false
		}
		if rest.Len() > 0 {
			<-time.After(20 * time.Millisecond)
		}
	}
	h := w.s.history
	h.mu.Lock()
	for name, ack := range acked {
		ack.asked, ack.acknowledged = asked, time.Now()
		h.acked[name] = ack
		h.order = append(h.order, name)
	}
	h.mu.Unlock()
	w.s.count("acknowledged")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answeredAt = time.Now()
	return true
}

// parts puts rows to the groups of the view of a process, as a node does, and returns those that
// groups do not hold any more.
func (w *simWriter) parts(
	ctx context.Context, p *simProcess, b *record.Batch, writer store.WriterSeq, asked time.Time,
	acked map[simName]simAck,
) (rest *record.Batch, err error) {
	v := p.member.Load().View()
	rows := map[cluster.GroupID][]uint32{}
	for i := range b.Len() {
		g := v.GroupOf(b.CID[i], b.MID[i])
		rows[g] = append(rows[g], uint32(i))
	}
	var parts []Part
	for g, of := range rows {
		parts = append(parts, Part{g, commands.AppendForSlots(nil, v.Groups[g].Slots,
			commands.AppendPutRows(nil, b, of, writer))})
	}
	answers, errs := p.member.Load().ProposeAll(ctx, parts, true)
	rest = new(record.Batch)
	for i, part := range parts {
		of := rows[part.Group]
		put := answers[i].Put
		unknown := errs[i] != nil && !errors.Is(errs[i], store.ErrOtherSlots)
		switch {
		case unknown && w.s.bug == bugEarlyAck && ctx.Err() == nil:
			put.LastAcqNs = 1<<63 - 1
		case unknown:
			return b, errs[i]
		case errs[i] != nil:
			err = errs[i]
			for _, row := range of {
				rest.AppendRow(b, int(row))
			}
			continue
		case put.Records < len(of):
			w.s.violated("group %d: a put of %d records is answered by %d: %+v", part.Group,
				len(of), put.Records, put)
		}
		if off := w.s.offTime(put, asked); off != "" {
			w.s.violated("group %d: a put through node %d has acq %d, %s", part.Group,
				p.node.place, put.FirstAcqNs, off)
		}
		for _, row := range of {
			acked[simName{b.CID[row], b.CapNs[row]}] = simAck{mid: b.MID[row],
				firstNs: put.FirstAcqNs, lastNs: put.LastAcqNs}
		}
	}
	return rest, err
}

// simClockBound is how far an acq may be from the right time, as most clocks are right within 200
// ms: the bound on clocks, and what they differ.
const simClockBound = 2 * time.Second

// offTime says how far the acqs of an answer are from the time between query and answer, "" for
// near.
func (s *simulation) offTime(put store.PutResult, asked time.Time) string {
	early := asked.Sub(time.Unix(0, put.LastAcqNs))
	late := time.Until(time.Unix(0, put.FirstAcqNs))
	switch {
	case s.bug != "":
	case early > simClockBound:
		return fmt.Sprintf("%v before it was asked for", early)
	case late > simClockBound:
		return fmt.Sprintf("%v after it was answered", late)
	}
	return ""
}

// allAnswered reports whether every writer has had an answer since.
func (s *simulation) allAnswered(since time.Time) bool {
	for _, w := range s.writers {
		w.mu.Lock()
		at := w.answeredAt
		w.mu.Unlock()
		if !at.After(since) {
			return false
		}
	}
	return true
}

// everywhere has all groups that can hold devices of a box decide on a command, and reports whether
// all have.
func (s *simulation) everywhere(rng *rand.Rand, box *record.Box, command []byte) bool {
	p := s.someone(rng)
	if p == nil {
		return false
	}
	ctx, cancel := s.patience()
	defer cancel()
	for began := time.Now(); time.Since(began) < 15*time.Second; {
		v := p.member.Load().View()
		var parts []Part
		for _, g := range v.GroupsOf(box) {
			parts = append(parts, Part{g, commands.AppendForSlots(nil, v.Groups[g].Slots, command)})
		}
		_, errs := p.member.Load().ProposeAll(ctx, parts, true)
		err := errors.Join(errs...)
		if p.ended() {
			return false
		}
		if !errors.Is(err, store.ErrOtherSlots) {
			return err == nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return false
}

// hide erases and purges what was written by some time.
func (s *simulation) hide(rng *rand.Rand) {
	for s.rest(rng, 4*time.Second) {
		h := simHiding{cid: simErased, below: time.Now().Add(-upTo(rng, 5*time.Second)).UnixNano(),
			asked: time.Now()}
		encode, name := commands.AppendErase, "erases"
		if rng.IntN(2) == 0 {
			h.cid, encode, name = simPurged, commands.AppendPurge, "purges"
		}
		box := record.Box{record.CID: {record.At(int64(h.cid))},
			record.Cap: {{From: 0, To: h.below}}}
		command, err := encode(nil, box)
		if err != nil {
			s.violated("%s: %v", name, err)
			return
		}
		s.history.mu.Lock()
		s.history.hidings = append(s.history.hidings, h)
		at := len(s.history.hidings) - 1
		s.history.mu.Unlock()
		for try := 0; try < 20 && !s.isHalted(); try++ {
			if s.everywhere(rng, &box, command) {
				s.count(name)
				s.history.mu.Lock()
				s.history.hidings[at].acknowledged = time.Now()
				s.history.mu.Unlock()
				break
			}
			<-time.After(200 * time.Millisecond)
		}
	}
}

// setRetention sets retentions, one of which is to remove nothing.
func (s *simulation) setRetention(rng *rand.Rand) {
	ages := map[int32]time.Duration{simKept: time.Hour, simExpiring: 20 * time.Second}
	for _, cid := range []int32{simKept, simExpiring} {
		command, err := commands.AppendRetention(nil, retention.Rule{CID: &cid,
			MaxCapAgeNs: int64(ages[cid])})
		if err != nil {
			s.violated("retention: %v", err)
			return
		}
		for s.rest(rng, time.Second) {
			if s.everywhere(rng, &record.Box{}, command) {
				s.count("retentions")
				break
			}
		}
	}
}

// readLatest reads records that were acknowledged before.
func (s *simulation) readLatest(rng *rand.Rand) {
	for s.rest(rng, 100*time.Millisecond) {
		h := s.history
		h.mu.Lock()
		if len(h.order) == 0 {
			h.mu.Unlock()
			continue
		}
		name := h.order[max(0, len(h.order)-1-rng.IntN(4))]
		ack := h.acked[name]
		h.mu.Unlock()
		if p := s.someone(rng); p != nil && name.cid < simRegular {
			s.read(p, name, ack)
		}
	}
}

func (s *simulation) read(p *simProcess, name simName, ack simAck) {
	m := p.member.Load()
	group := m.View().GroupOf(name.cid, ack.mid)
	ctx, cancel := s.patience()
	defer cancel()
	if m.ReadIndex(ctx, group) != nil {
		return
	}
	from := m.Store(group)
	if from == nil || p.ended() {
		return
	}
	before := from.Slots()
	rows, err := simRows(ctx, from, record.ViewAll, record.Box{
		record.CID: {record.At(int64(name.cid))}, record.Cap: {record.At(name.cap)}})
	if err != nil || p.ended() || from.Slots() != before || !s.holds(before, group, name.cid,
		ack.mid) {
		return
	}
	s.count("reads")
	if len(rows[name]) != 1 {
		s.violated("group %d: a read on node %d has record %v %d times, which was acknowledged %v "+
			"ago with acq %d", group, p.node.place, name, len(rows[name]),
			time.Since(ack.acknowledged), ack.firstNs)
	}
}

// simRows returns the acqs of the records in a box of a store.
func simRows(
	ctx context.Context, from *store.Store, view record.View, box record.Box,
) (map[simName][]int64, error) {
	q := &record.Query{Box: box, View: view}
	if err := q.Normalize(); err != nil {
		return nil, err
	}
	out := map[simName][]int64{}
	var mu sync.Mutex
	_, err := from.Scan(ctx, q, func(int) (store.Sink, error) {
		return func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				name := simName{b.CID[i], b.CapNs[i]}
				out[name] = append(out[name], b.AcqNs[i])
				for _, x := range b.Payload(i) {
					if x != 'x' {
						return fmt.Errorf("payload of %v: %q", name, b.Payload(i))
					}
				}
			}
			return nil
		}, nil
	})
	return out, err
}
