package spill

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// mergeRuns is how many runs of files are merged at once; more are merged in several passes.
	mergeRuns = 32
	// runRows and runBytes are the size from which a batch is sorted by itself: smaller ones
	// are gathered first.
	runRows  = 1024
	runBytes = 256 << 10
	// Emitted batches have this many rows, or this many bytes of payloads.
	outRows  = 4096
	outBytes = 1 << 20
	// rowBytes is the memory of a row besides its payload: its key, the offset of its payload and a
	// share of the overhead of its batch.
	rowBytes = 40
	// cutSlack avoids a merge after every batch with small limits.
	cutSlack = 1 << 16
)

// Sorter sorts records. Beyond the memory that its space allows, it writes sorted runs to temporary
// files. Add may be called from many goroutines.
type Sorter struct {
	space   *Space
	compare func(a, b record.Key) int
	limit   uint64

	mu      sync.Mutex
	pending record.Batch      // fewer than a run, in no order; guarded by mu, as all below
	sorted  [][]*record.Batch // runs in memory
	rows    uint64            // in sorted
	held    int64             // bytes that sorted has of the space
	bound   *record.Key       // with a limit: that many rows are not after this key
	runs    []run
	last    map[int]*file // by level: where the next run goes
	closed  bool
}

// Sorter returns a sorter that keeps the first limit rows of an order, 0 for all. The caller closes
// it.
func (s *Space) Sorter(compare func(a, b record.Key) int, limit uint64) *Sorter {
	s.count(1)
	return &Sorter{space: s, compare: compare, limit: limit, last: map[int]*file{}}
}

// ByAcq returns a sorter of records by acq, and by the rest of their keys where acqs are equal. The
// caller closes it.
func (s *Space) ByAcq(limit uint64) *Sorter {
	return s.Sorter(func(a, b record.Key) int {
		return cmp.Or(cmp.Compare(a.AcqNs, b.AcqNs), a.Compare(b))
	}, limit)
}

// Another returns a sorter of the same space, order and limit.
func (s *Sorter) Another() *Sorter { return s.space.Sorter(s.compare, s.limit) }

// Close releases memory and files. It may be called more than once.
func (s *Sorter) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.space.count(-1)
	s.space.give(s.held)
	for _, r := range s.runs {
		r.drop()
	}
	s.held, s.runs, s.sorted = 0, nil, nil
}

// Add adds a copy of the rows of a batch, which have acqs.
//
// Errors: ErrNoSpace; those of the file system; the cause of ctx.
func (s *Sorter) Add(ctx context.Context, b *record.Batch) error {
	if b.Len() >= runRows || len(b.Data) >= runBytes {
		return s.addRun(ctx, b)
	}
	s.mu.Lock()
	s.pending.AppendRows(b, 0, b.Len())
	if s.pending.Len() < runRows && len(s.pending.Data) < runBytes {
		s.mu.Unlock()
		return nil
	}
	full := s.pending
	s.pending = record.Batch{}
	s.mu.Unlock()
	return s.addRun(ctx, &full)
}

// addRun sorts a batch and adds it as a run.
func (s *Sorter) addRun(ctx context.Context, b *record.Batch) error {
	s.mu.Lock()
	bound := s.bound
	s.mu.Unlock()
	order := make([]uint32, 0, b.Len())
	for i := range b.Len() {
		if bound == nil || s.compare(b.Key(i), *bound) < 0 {
			order = append(order, uint32(i))
		}
	}
	slices.SortFunc(order, func(i, k uint32) int {
		return s.compare(b.Key(int(i)), b.Key(int(k)))
	})
	if s.limit > 0 && uint64(len(order)) > s.limit {
		order = order[:s.limit]
	}
	if len(order) == 0 {
		return nil
	}
	bytes := 0
	for _, i := range order {
		bytes += len(b.RawPayload(int(i)))
	}
	own := &record.Batch{Data: make([]byte, 0, bytes)}
	own.AppendPicked(b, order)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(ctx, own)
}

func bytesOf(b *record.Batch) int64 { return int64(b.Len())*rowBytes + int64(cap(b.Data)) }

// keep adds a sorted batch as a run.
func (s *Sorter) keep(ctx context.Context, b *record.Batch) error {
	bytes := bytesOf(b)
	if !s.space.take(s.held, bytes) {
		if err := s.spill(ctx); err != nil {
			return err
		}
		if !s.space.take(0, bytes) {
			return s.write(ctx, []*cursor{inMemory(b)}, 0)
		}
	}
	s.held += bytes
	s.rows += uint64(b.Len())
	s.sorted = append(s.sorted, []*record.Batch{b})
	if s.limit > 0 && s.rows/4 > s.limit+cutSlack/4 {
		return s.mergeInMemory(ctx)
	}
	return nil
}

// inMemory returns cursors at the runs in memory.
func (s *Sorter) inMemory() []*cursor {
	all := make([]*cursor, len(s.sorted))
	for i, batches := range s.sorted {
		all[i] = inMemory(batches...)
	}
	return all
}

// mergeInMemory merges the runs in memory into one, with as many rows as the limit allows.
func (s *Sorter) mergeInMemory(ctx context.Context) error {
	var first []*record.Batch
	var held int64
	rows := uint64(0)
	err := s.collect(ctx, s.inMemory(), func(b *record.Batch) error {
		own := new(record.Batch)
		own.AppendRows(b, 0, b.Len())
		first = append(first, own)
		held += bytesOf(own)
		rows += uint64(b.Len())
		return nil
	})
	if err != nil {
		return err
	}
	s.space.give(s.held - held)
	s.sorted, s.rows, s.held = [][]*record.Batch{first}, rows, held
	if last := first[len(first)-1]; rows == s.limit {
		bound := last.Key(last.Len() - 1)
		s.bound = &bound
	}
	return nil
}

// spill merges the runs in memory into one in a file.
func (s *Sorter) spill(ctx context.Context) error {
	if len(s.sorted) == 0 {
		return nil
	}
	if err := s.write(ctx, s.inMemory(), 0); err != nil {
		return err
	}
	s.space.give(s.held)
	s.sorted, s.rows, s.held = nil, 0, 0
	return nil
}

// write merges cursors into a run of a level, and the runs of that level into one of the next when
// there are many.
func (s *Sorter) write(ctx context.Context, from []*cursor, level int) error {
	f := s.last[level]
	if f == nil || f.runs == 0 {
		of, err := s.space.create()
		if err != nil {
			return err
		}
		f = &file{space: s.space, File: of}
		s.last[level] = f
	}
	w := newRunWriter(f)
	err := merge(ctx, s.compare, from, s.limit, func(c *cursor) error {
		payload, err := c.payload()
		if err != nil {
			return err
		}
		return w.add(c.key, payload, c.batch.Tomb(c.at))
	})
	made, endErr := w.end(level)
	s.runs = append(s.runs, made)
	if err == nil {
		err = endErr
	}
	if err != nil {
		return err
	}
	same := 0
	for _, r := range s.runs {
		if r.level == level {
			same++
		}
	}
	if same < mergeRuns {
		return nil
	}
	return s.mergeFiles(ctx, mergeRuns)
}

// mergeFiles merges some runs in files, those of the lowest levels, into one.
func (s *Sorter) mergeFiles(ctx context.Context, count int) error {
	slices.SortStableFunc(s.runs, func(a, b run) int { return a.level - b.level })
	merged := slices.Clone(s.runs[:count])
	s.runs = slices.Delete(s.runs, 0, count)
	defer func() {
		for _, r := range merged {
			r.drop()
		}
	}()
	from, err := cursorsOf(merged)
	if err != nil {
		return err
	}
	return s.write(ctx, from, merged[count-1].level+1)
}

func cursorsOf(runs []run) ([]*cursor, error) {
	var all []*cursor
	large := new([]byte)
	for _, r := range runs {
		c := r.cursor(large)
		more, err := c.load()
		if err != nil {
			return nil, err
		}
		if more {
			all = append(all, c)
		}
	}
	return all, nil
}

// Take moves all rows of another sorter of the same space, order and limit to this one.
//
// Errors: those of Add.
func (s *Sorter) Take(ctx context.Context, o *Sorter) error {
	o.mu.Lock()
	pending, sorted, rows, held, runs := o.pending, o.sorted, o.rows, o.held, o.runs
	o.pending, o.sorted, o.rows, o.held, o.runs = record.Batch{}, nil, 0, 0, nil
	o.last = map[int]*file{}
	o.mu.Unlock()
	s.mu.Lock()
	s.sorted = append(s.sorted, sorted...)
	s.runs = append(s.runs, runs...)
	s.rows, s.held = s.rows+rows, s.held+held
	s.mu.Unlock()
	if pending.Len() == 0 {
		return nil
	}
	return s.Add(ctx, &pending)
}

// Each emits all rows in order, in batches that are valid during the call. It is called once, after
// all rows were added.
//
// Errors: those of Add and emit.
func (s *Sorter) Each(ctx context.Context, emit func(b *record.Batch) error) error {
	s.mu.Lock()
	last := s.pending
	s.pending = record.Batch{}
	s.mu.Unlock()
	if last.Len() > 0 {
		if err := s.addRun(ctx, &last); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs) == 0 {
		return s.collect(ctx, s.inMemory(), emit)
	}
	if err := s.spill(ctx); err != nil {
		return err
	}
	for len(s.runs) > mergeRuns {
		if err := s.mergeFiles(ctx, min(mergeRuns, len(s.runs)-mergeRuns+1)); err != nil {
			return err
		}
	}
	from, err := cursorsOf(s.runs)
	if err != nil {
		return err
	}
	return s.collect(ctx, from, emit)
}

// collect merges cursors into batches.
func (s *Sorter) collect(
	ctx context.Context, from []*cursor, emit func(b *record.Batch) error,
) error {
	var out record.Batch
	hand := func() error {
		err := emit(&out)
		if out.Reset(); cap(out.Data) > 2*outBytes {
			out.Data = nil
		}
		return err
	}
	err := merge(ctx, s.compare, from, s.limit, func(c *cursor) error {
		payload, err := c.payload()
		if err != nil {
			return err
		}
		appendRow(&out, c.key, payload, c.batch.Tomb(c.at))
		if out.Len() >= outRows || len(out.Data) >= outBytes {
			return hand()
		}
		return nil
	})
	if err != nil || out.Len() == 0 {
		return err
	}
	return hand()
}
