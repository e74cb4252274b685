package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Tenants from firstSpecial on are not of the writers.
const (
	firstSpecial   = 1000
	eraserTenant   = 1000
	registerTenant = 1001
)

// load is what clients do to a farm while faults come.
type load struct {
	f       *farm
	history *history
	heart   pulse
	pause   time.Duration // of writers between two batches

	registerPause time.Duration // of users of registers between two steps, at most

	errors atomic.Int64 // that clients saw and did not mend themselves; queries may fail
	asked  atomic.Int64 // queries answered and checked

	histories atomic.Int64 // of registers, that were checked

	mu    sync.Mutex // guards wrong
	wrong []string

	// What was found in the end: the nodes of each group, how it is asked for, what is in it, and
	// the greatest acq.
	places [][]int
	parts  []string
	groups []*tally
	lastNs int64
}

func (l *load) finding(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) < maxFindings {
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

// wait waits between two steps of a client.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// roam puts batches through whichever node, and the same one again elsewhere until there is an
// answer. After stop it finishes the one that it is at.
func (l *load) roam(ctx, stop context.Context, writer int32, rng *rand.Rand) {
	clients := l.clients()
	for seq := uint64(1); stop.Err() == nil; seq++ {
		b := batchOf(writer, seq)
		l.history.sent(writer)
		for ctx.Err() == nil {
			one, cancel := short(ctx)
			reply, err := clients[rng.IntN(len(clients))].Put(one, b, [16]byte{byte(writer)}, seq)
			cancel()
			if err == nil {
				if reply.Records != rowsOfBatch {
					l.finding("batch %d of writer %d: %d records acknowledged", seq, writer,
						reply.Records)
				}
				l.history.acked(writer, seq, reply)
				break
			}
			l.judge("put", err)
			wait(ctx, time.Duration(10+rng.IntN(40))*time.Millisecond)
		}
		if l.pause > 0 {
			wait(stop, l.pause)
		}
	}
}

// judge finds errors that no fault explains.
func (l *load) judge(what string, err error) {
	l.errors.Add(1)
	var e *wire.Error
	if !errors.As(err, &e) || e.Kind.Temporary() {
		return
	}
	l.finding("%s: %v", what, err)
}

// steady puts batches through a client with what every one has by default, and closes that.
func (l *load) steady(ctx, stop context.Context, writer int32, c *client.Client) {
	w := c.NewWriter(client.WriterOptions{BatchRecords: rowsOfBatch})
	for seq := uint64(1); stop.Err() == nil && ctx.Err() == nil; seq++ {
		l.history.sent(writer)
		b, began := batchOf(writer, seq), time.Now()
		var err error
		for i := range b.Len() {
			err = errors.Join(err, w.Add(ctx, b.Key(i), b.Payload(i)))
		}
		if err = errors.Join(err, w.Flush(ctx)); err != nil {
			if ctx.Err() == nil && !l.heart.missed(began) {
				l.finding("a writer with default retries: %v", err)
			}
			break
		}
		l.history.acked(writer, seq, wire.PutReply{})
		if l.pause > 0 {
			wait(stop, l.pause)
		}
	}
	_ = w.Close(ctx) // what Flush did not say is in the history as unknown
	_ = c.Close()
}

func (l *load) clients() []*client.Client {
	out := make([]*client.Client, len(l.f.nodes))
	for i := range out {
		out[i] = l.f.client(i)
	}
	return out
}

// read asks nodes what must be there by now: at least what was answered before the query, and
// not more than what was sent until the answer.
func (l *load) read(ctx context.Context, writers int, rng *rand.Rand) {
	clients := l.clients()
	for ctx.Err() == nil {
		wait(ctx, time.Duration(20+rng.IntN(200))*time.Millisecond)
		writer := int32(rng.IntN(writers)) + 1
		_, acked, lastNs := l.history.at(writer)
		if acked == 0 {
			continue
		}
		c := clients[rng.IntN(len(clients))].After(lastNs)
		if writer > roamers { // a client.Writer does not say which acqs its records have got
			c = c.Linearizable()
		}
		q := &record.Query{}
		q.Box[record.CID] = record.RangeSet{record.At(int64(writer))}
		one, cancel := short(ctx)
		if rng.IntN(2) == 0 {
			l.count(one, c, q, writer, acked)
		} else {
			l.rows(one, c, q, writer, acked, rng.IntN(rowsOfBatch))
		}
		cancel()
	}
}

func (l *load) count(
	ctx context.Context, c *client.Client, q *record.Query, writer int32, acked int,
) {
	got, end, err := c.Count(ctx, q)
	if err != nil || !end.Complete {
		l.ask("count", err)
		return
	}
	l.asked.Add(1)
	sent, _, _ := l.history.at(writer)
	if got < uint64(acked*rowsOfBatch) || got > uint64(sent*rowsOfBatch) {
		l.finding("a count of writer %d is %d, with %d records answered before it and %d sent",
			writer, got, acked*rowsOfBatch, sent*rowsOfBatch)
	}
}

// ask judges an error of a query; those that end with their time are none.
func (l *load) ask(what string, err error) {
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err,
		context.Canceled) {
		l.judge(what, err)
	}
}

// rows reads one device.
func (l *load) rows(
	ctx context.Context, c *client.Client, q *record.Query, writer int32, acked, device int,
) {
	q.Box[record.MID] = record.RangeSet{record.At(int64(device) << 8)}
	t := newTally("a reader of rows")
	for r, err := range c.Query(ctx, q) {
		if err != nil {
			l.ask("rows", err)
			return
		}
		t.add(r.Key, r.Payload)
	}
	l.asked.Add(1)
	for s := range acked {
		if t.of(writer).at(s, device) == 0 {
			l.finding("a reader of rows misses %+v, answered before it asked",
				rowName{writer, uint64(s + 1), device})
			break
		}
	}
	for _, wrong := range t.wrong {
		l.finding("%s", wrong)
	}
}

// feedReader follows the change feed and keeps where it is, like one whose process is killed and
// started again, at another node each time.
type feedReader struct {
	tally    *tally
	closedNs int64
	lastNs   int64
	resumed  int
}

// follow reads until ctx ends, or up to an acq.
func (r *feedReader) follow(ctx context.Context, f *farm, untilNs int64, rng *rand.Rand) {
	clients := f.clientsOf()
	for ctx.Err() == nil && r.closedNs < untilNs {
		life, cancel := context.WithTimeout(ctx, time.Duration(300+rng.IntN(4000))*
			time.Millisecond)
		r.resumed++
		from := r.closedNs
		for b, err := range clients[rng.IntN(len(clients))].ChangeBatches(life, &record.Query{},
			from) {
			if err != nil {
				r.tally.finding("the feed ended: %v", err)
				break
			}
			r.take(b)
			if r.closedNs >= untilNs {
				break
			}
		}
		cancel()
	}
}

func (r *feedReader) take(b client.ChangeBatch) {
	if b.ClosedNs < r.closedNs {
		r.tally.finding("the feed went back from acq %d to %d", r.closedNs, b.ClosedNs)
	}
	for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
		k := b.Rows.Key(i)
		if k.AcqNs < r.lastNs || k.AcqNs < r.closedNs {
			r.tally.finding("the feed brings acq %d after %d and closed %d", k.AcqNs, r.lastNs,
				r.closedNs)
		}
		r.lastNs = k.AcqNs
		r.tally.add(k, b.Rows.Payload(i))
	}
	r.closedNs = b.ClosedNs
}

func (f *farm) clientsOf() []*client.Client { return (&load{f: f}).clients() }

// erasures are rounds of an eraser: a batch, an erase of it, and a batch of the same readings.
type erasures struct {
	rounds []erasure
}

type erasure struct{ before, erased, after bool } // answered; else no one knows

// eraserRows of a round lie in several groups.
const eraserRows = 40

// erase puts readings, erases them, and puts them again.
func (l *load) erase(ctx, stop context.Context, e *erasures, rng *rand.Rand) {
	clients := l.clients()
	put := func(seq uint64, capNs int64, moid int32) bool {
		b := &record.Batch{}
		for i := range int64(eraserRows) {
			b.Append(record.Key{CID: eraserTenant, MID: i << 8, MOID: moid, CapNs: capNs},
				[]byte{1})
		}
		for ctx.Err() == nil {
			one, cancel := short(ctx)
			_, err := clients[rng.IntN(len(clients))].Put(one, b, [16]byte{0xee}, seq)
			cancel()
			if err == nil {
				return true
			}
			l.judge("put", err)
			wait(ctx, 20*time.Millisecond)
		}
		return false
	}
	for round := int64(1); stop.Err() == nil; round++ {
		r := erasure{before: put(uint64(2*round-1), round, 1)}
		box := &wire.Box{}
		box.Box[record.CID] = record.RangeSet{record.At(eraserTenant)}
		box.Box[record.Cap] = record.RangeSet{record.At(round)}
		one, cancel := short(ctx)
		_, err := clients[rng.IntN(len(clients))].Erase(one, box)
		cancel()
		if r.erased = err == nil; err != nil {
			l.judge("erase", err)
			wait(ctx, time.Second) // it may still be on its way, and must not meet the next put
		}
		if r.erased {
			r.after = put(uint64(2*round), round, 2)
		}
		e.rounds = append(e.rounds, r)
		wait(ctx, 200*time.Millisecond)
	}
}

// hold finds what an erase should have hidden, or hid and should not have, in counts of the
// readings before (quantity 1) and after it (quantity 2), by round.
func (e *erasures) hold(name string, before, after []int) (wrong []string) {
	for i, r := range e.rounds {
		switch {
		case r.erased && before[i] != 0:
			wrong = append(wrong, fmt.Sprintf("%s: erased readings of round %d are there: %d", name,
				i+1, before[i]))
		case r.after && after[i] != eraserRows:
			wrong = append(wrong, fmt.Sprintf("%s: round %d: %d of %d readings put after an erase",
				name, i+1, after[i], eraserRows))
		case before[i] > eraserRows || after[i] > eraserRows:
			wrong = append(wrong, fmt.Sprintf("%s: round %d: readings doubled", name, i+1))
		}
	}
	return wrong
}
