package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

// groupModel is a replica done stupidly: what the log did, command by command.
type groupModel struct {
	rows     []modelRow
	events   []event.Event // erases and purges
	policies map[string]*modelPolicy
	time     int64 // of the last step
	ran      int64
	held     bool
	writers  map[record.Writer]*modelWriter
	next     int64

	indexes  []uint64
	outcomes []Outcome
	states   []groupState // after each command
}

// groupState is what is to be seen after a command.
type groupState struct {
	model
	next int64
}

type modelWriter struct {
	high    uint64
	lastAcq int64
	first   map[uint64]PutResult
}

func newGroupModel() *groupModel {
	return &groupModel{policies: map[string]*modelPolicy{},
		writers: map[record.Writer]*modelWriter{}}
}

// state returns what is to be seen after the command with an index, or the last one before it.
func (m *groupModel) state(index uint64) groupState {
	at, ok := slices.BinarySearch(m.indexes, index)
	if !ok {
		at--
	}
	if at < 0 {
		return groupState{}
	}
	return m.states[at]
}

// end notes what a command answered.
func (m *groupModel) end(c Command, out Outcome) {
	m.indexes, m.outcomes = append(m.indexes, c.Index), append(m.outcomes, out)
	events := slices.Clone(m.events)
	for _, p := range m.policies {
		events = append(events, p.events()...)
	}
	m.states = append(m.states, groupState{model{slices.Clip(m.rows), events}, m.next})
}

func (m *groupModel) put(c Command, b *record.Batch, id WriterSeq) {
	first := max(c.ClockNs, m.next)
	w := m.writers[id.Writer()]
	if w == nil || w.lastAcq < first-writers.IdleNs && !id.Persistent {
		w = &modelWriter{first: map[uint64]PutResult{}}
	}
	old, known := w.first[id.Seq]
	switch {
	case id.ID == [16]byte{}:
	case id.Persistent && id.Seq < w.high:
		m.end(c, Outcome{Err: writers.ErrTooOld})
		return
	case known && !w.forgot(id.Seq):
		old.Duplicate = true
		m.end(c, Outcome{Put: old})
		return
	case w.high >= writers.MaxResults && id.Seq <= w.high-writers.MaxResults:
		m.end(c, Outcome{Err: writers.ErrTooOld})
		return
	}
	for i := range b.Len() {
		r := modelRowOf(b, i)
		r.key.AcqNs = first + int64(i)
		m.rows = append(m.rows, r)
	}
	res := PutResult{FirstAcqNs: first, LastAcqNs: first + int64(b.Len()) - 1, Records: b.Len()}
	m.next = first + int64(b.Len())
	if id.ID != [16]byte{} {
		m.writers[id.Writer()] = w
		w.high, w.lastAcq, w.first[id.Seq] = max(w.high, id.Seq), first, res
	}
	m.end(c, Outcome{Put: res})
}

// forgot reports whether 64 answers to greater sequences were given.
func (w *modelWriter) forgot(seq uint64) bool {
	greater := 0
	for s := range w.first {
		if s > seq {
			greater++
		}
	}
	return greater >= writers.MaxResults
}

func (m *groupModel) event(c Command, kind event.Kind, box record.Box) {
	acq := max(c.ClockNs, m.next)
	m.events = append(m.events, event.Event{AcqNs: acq, Kind: kind, Box: box})
	m.next = acq + 1
	m.end(c, Outcome{AcqNs: acq})
}

// groupLog draws commands and has the model do them.
type groupLog struct {
	shape
	model    *groupModel
	commands []Command
	clock    int64
	seqs     map[record.Writer]uint64
	old      map[WriterSeq]*record.Batch
}

func newGroupLog(sh shape) *groupLog {
	return &groupLog{shape: sh, model: newGroupModel(), clock: sh.caps * int64(time.Minute),
		seqs: map[record.Writer]uint64{}, old: map[WriterSeq]*record.Batch{}}
}

// tick returns a clock reading of some proposer: most go on, some are behind.
func (l *groupLog) tick(rng *rand.Rand) int64 {
	l.clock += rng.Int64N(int64(time.Minute))
	switch rng.IntN(60) {
	case 0:
		l.clock += int64(9 * 24 * time.Hour)
	case 1, 2, 3, 4, 5, 6:
		return max(1, l.clock-rng.Int64N(int64(time.Hour)))
	}
	return l.clock
}

// more appends a command.
func (l *groupLog) more(rng *rand.Rand) {
	c := Command{Index: uint64(1 + rng.IntN(3)), ClockNs: l.tick(rng)}
	if n := len(l.commands); n > 0 {
		c.Index += l.commands[n-1].Index
	}
	var err error
	m := l.model
	switch op := rng.IntN(40); {
	case op < 28:
		b, id := l.batch(rng, 1+rng.IntN(40), l.clock), l.writer(rng)
		if old := l.old[id]; old != nil {
			b = old
		}
		l.old[id] = b
		c.Data, err = commands.AppendPut(nil, b, id)
		m.put(c, b, id)
	case op < 31:
		box := l.eventBox(rng, &model{rows: m.rows})
		c.Data, err = commands.AppendErase(nil, box)
		m.event(c, event.Erase, box)
	case op < 32:
		box := l.eventBox(rng, &model{rows: m.rows})
		c.Data, err = commands.AppendPurge(nil, box)
		m.event(c, event.Purge, box)
	case op < 34:
		r := l.policy(rng)
		c.Data, err = commands.AppendRetention(nil, r)
		m.retention(c, r)
	case op < 36:
		c.Data = m.drawStep(rng, c)
	case op < 37:
		h := l.drawHold(rng)
		c.Data, err = commands.AppendHold(nil, h)
		m.hold(c, h)
	case op < 38:
		c.Data = commands.AppendHorizon(nil)
		m.next = max(m.next, c.ClockNs)
		m.end(c, Outcome{})
	case op < 39: // an entry of the log that holds nothing
		m.end(c, Outcome{})
	default:
		c.Data = append(commands.AppendHorizon(nil), 1)
		m.end(c, Outcome{Err: commands.ErrBad})
	}
	if err != nil {
		panic(err)
	}
	l.commands = append(l.commands, c)
}

// writer draws a batch's sequence: none, the next one of few writers, or an older one.
func (l *groupLog) writer(rng *rand.Rand) WriterSeq {
	w := record.Writer{ID: [16]byte{byte(rng.IntN(4))}}
	if w.ID[0] == 0 {
		return WriterSeq{}
	}
	if w.ID[0] == 3 { // two writers of one id
		w = record.Writer{ID: [16]byte{1}, Persistent: true}
	}
	seq := l.seqs[w] + 1
	switch rng.IntN(8) {
	case 0, 1:
		seq -= min(seq, rng.Uint64N(100))
	case 2:
		seq += rng.Uint64N(30)
	}
	l.seqs[w] = max(l.seqs[w], seq)
	return WriterSeq{ID: w.ID, Seq: seq, Persistent: w.Persistent}
}

func (l *groupLog) policy(rng *rand.Rand) retention.Rule {
	cid := int32(rng.Int64N(l.cids))
	r := retention.Rule{CID: &cid}
	switch rng.IntN(4) {
	case 0:
	case 1:
		r.MaxAcqAgeNs = int64(time.Minute) + rng.Int64N(int64(time.Hour))
	default:
		r.MaxCapAgeNs = int64(time.Minute) + rng.Int64N(l.caps)*int64(time.Minute)
	}
	return r
}

// sameOutcome compares answers; errors are alike when the model's is in that of the store.
func sameOutcome(got, want Outcome) bool {
	return got.Put == want.Put && got.AcqNs == want.AcqNs && !got.Skipped &&
		(got.Err == nil) == (want.Err == nil) && errors.Is(got.Err, want.Err)
}

// plainEvents are events without what is local to a replica: whether and how they were carried out.
func plainEvents(all []event.Event) map[string]int {
	found := map[string]int{}
	for _, e := range all {
		found[fmt.Sprint(e.AcqNs, e.Kind, e.Box)]++
	}
	return maps.Clone(found)
}
