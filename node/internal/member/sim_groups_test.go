package member

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/machine"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
)

// simGroups is what [replica.Runtime] is, on a simulated network: a core, with one goroutine for
// each part of it. A process that is paused takes no step.
type simGroups struct {
	p       *simProcess
	core    *replica.Core
	answer  func([]byte) []byte
	heard   func(node uint64, note []byte) []byte
	wake    map[replica.Part]chan struct{}
	closing chan struct{}
	once    sync.Once

	mu     sync.Mutex // guards closed: no goroutine is added to wg after it
	closed bool
	wg     sync.WaitGroup
}

const (
	simAppliers = 3 // two may install a snapshot meanwhile
	simTick     = 50 * time.Millisecond
)

func newSimGroups(p *simProcess, o replica.Options) (*simGroups, replica.Report, error) {
	r := &simGroups{p: p, answer: o.Answer, heard: o.Heard, closing: make(chan struct{}),
		wake: map[replica.Part]chan struct{}{0: make(chan struct{}, 1),
			replica.Flusher: make(chan struct{}, 1),
			replica.Applier: make(chan struct{}, simAppliers)}}
	core, report, err := replica.OpenCore(replica.CoreOptions{Node: o.Node, Files: p.disk,
		Network: p, Fail: o.Fail, Elected: o.Elected, MayLead: o.MayLead, Starts: o.Starts,
		Copied: o.Copied, Trust: o.Trust || p.s.bug == bugOldCopy, TrustTicks: 1,
		RetainBytes: p.s.config.retain, FileBytes: p.s.config.fileBytes,
		Wake: func(part replica.Part) {
			select {
			case r.wake[part] <- struct{}{}:
			default:
			}
		}})
	if err != nil {
		return nil, report, err
	}
	r.core = core
	p.groups.Store(r) // from now on, others reach it
	r.wg.Go(func() { r.loop(0, func() bool { return core.StepWorker(0) }) })
	r.wg.Go(func() { r.loop(replica.Flusher, core.StepFlusher) })
	for range simAppliers {
		r.wg.Go(func() { r.loop(replica.Applier, core.StepApplier) })
	}
	r.wg.Go(r.tick)
	return r, report, nil
}

func (r *simGroups) loop(part replica.Part, step func() bool) {
	for {
		select {
		case <-r.closing:
			return
		case <-r.wake[part]:
		}
		for r.p.runs(r.closing) && step() {
		}
	}
}

func (r *simGroups) tick() {
	t := time.NewTicker(simTick)
	defer t.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-t.C:
		}
		if r.p.runs(r.closing) {
			r.core.Tick()
		}
	}
}

// serve runs what another node asked for, unless this one is closing.
func (r *simGroups) serve(do func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.wg.Go(do)
	}
	return !r.closed
}

func (r *simGroups) Close() error {
	err := replica.ErrClosed
	r.once.Do(func() {
		close(r.closing)
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.wg.Wait()
		err = r.core.Close()
	})
	return err
}

// awaitSim waits for the answer of a callback.
func awaitSim[T any](
	ctx context.Context, r *simGroups, start func(done func(T, error)),
) (value T, err error) {
	answered := make(chan struct{})
	var answer T
	var failed error
	start(func(v T, err error) {
		answer, failed = v, err
		close(answered)
	})
	select {
	case <-answered:
		return answer, failed
	case <-ctx.Done():
		return value, fmt.Errorf("%w: %w", replica.ErrUnknown, ctx.Err())
	case <-r.closing:
		return value, fmt.Errorf("%w: %w", replica.ErrUnknown, replica.ErrClosed)
	}
}

func (r *simGroups) simply(ctx context.Context, start func(done func(error))) error {
	_, err := awaitSim(ctx, r, func(done func(struct{}, error)) {
		start(func(err error) { done(struct{}{}, err) })
	})
	return err
}

func (r *simGroups) Groups() map[cluster.GroupID]uint64 { return r.core.Groups() }

func (r *simGroups) Create(
	ctx context.Context, group cluster.GroupID, id uint64, voters []uint64,
) error {
	return r.simply(ctx, func(done func(error)) { r.core.Create(group, id, voters, done) })
}

func (r *simGroups) Start(group cluster.GroupID, m replica.Machine) error {
	wrapped := &simMachine{Machine: m, p: r.p, group: group}
	if w, ok := m.(watched); ok {
		wrapped.data, _ = w.Machine.(*machine.Machine)
	}
	if err := wrapped.keep(); err != nil {
		return err
	}
	r.p.mu.Lock()
	r.p.machines[group] = wrapped
	r.p.mu.Unlock()
	return r.core.Start(group, wrapped)
}

func (r *simGroups) Drop(ctx context.Context, group cluster.GroupID) error {
	err := r.simply(ctx, func(done func(error)) { r.core.Drop(group, done) })
	if err == nil {
		r.p.mu.Lock()
		delete(r.p.machines, group)
		r.p.mu.Unlock()
	}
	return err
}

func (r *simGroups) Status(group cluster.GroupID) (replica.Status, error) {
	return r.core.Status(group)
}

func (r *simGroups) ProposeIn(
	ctx context.Context, group cluster.GroupID, stamp replica.Stamp, ended func(),
	data ...[]byte,
) (any, error) {
	if r.p.s.bug == bugForget {
		stamp = nil
	}
	return awaitSim(ctx, r, func(done func(any, error)) {
		r.core.ProposeIn(group, data, stamp, func(result any, err error) {
			if ended != nil {
				ended()
			}
			done(result, err)
		})
	})
}

func (r *simGroups) Lead(
	ctx context.Context, groups []cluster.GroupID, do func(group cluster.GroupID, t replica.Tenure),
) error {
	return r.simply(ctx, func(done func(error)) {
		r.core.Lead(groups, do, func() { done(nil) })
	})
}

func (r *simGroups) ReadIndex(ctx context.Context, group cluster.GroupID) (uint64, error) {
	if r.p.s.bug == bugLocalRead {
		st, err := r.core.Status(group)
		return st.Applied, err
	}
	return awaitSim(ctx, r, func(done func(uint64, error)) { r.core.ReadIndex(group, done) })
}

func (r *simGroups) Change(ctx context.Context, group cluster.GroupID, c replica.Change) error {
	return r.simply(ctx, func(done func(error)) { r.core.Change(group, c, done) })
}

func (r *simGroups) TransferLeader(group cluster.GroupID, to uint64) {
	r.core.TransferLeader(group, to)
}

// SendNote brings a note to another node, and one that answers it back.
func (r *simGroups) SendNote(node uint64, note []byte) bool {
	q := r.p.s.process(node)
	if q == nil {
		return false
	}
	r.p.send(q, true, func() {
		there := q.groups.Load()
		if there == nil || q.isPaused() {
			return
		}
		if answer := there.heard(uint64(r.p.id()), note); answer != nil {
			q.send(r.p, true, func() { r.heard(uint64(q.id()), answer) })
		}
	})
	return true
}

func (r *simGroups) SetSnapshotRate(int64) {}

func (r *simGroups) MayLead() bool { return r.core.MayLead() }

func (r *simGroups) NoSpace() error { return nil }

func (r *simGroups) CheckFiles() {}

func (r *simGroups) MistakenNode() uint64 { return 0 }

func (r *simGroups) LogBytes() int64 { return 0 }
func (r *simGroups) Verify(
	ctx context.Context, pace Pace, damaged func(cluster.GroupID, error),
) error {
	return r.core.Verify(ctx, pace, damaged)
}

// Ask brings a request to another node and its answer back.
func (r *simGroups) Ask(ctx context.Context, node uint64, parts ...[]byte) ([]byte, error) {
	var message []byte
	for _, part := range parts {
		message = append(message, part...)
	}
	q := r.p.s.process(node)
	if q == nil || q.groups.Load() == nil {
		return nil, fmt.Errorf("ask node %d: %w", node, replica.ErrUnreachable)
	}
	answer := make(chan []byte, 1)
	r.p.carry(q, func() {
		there := q.groups.Load()
		there.serve(func() {
			if !q.runs(there.closing) {
				return
			}
			said := there.answer(message)
			q.carry(r.p, func() { answer <- said })
		})
	})
	select {
	case said := <-answer:
		return said, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("ask node %d: %w: %w", node, replica.ErrUnknown, ctx.Err())
	case <-q.gone:
		return nil, fmt.Errorf("ask node %d: %w", node, replica.ErrUnknown)
	case <-r.closing:
		return nil, fmt.Errorf("ask node %d: %w: %w", node, replica.ErrUnknown, replica.ErrClosed)
	}
}

// simMachine observes a replica: what it answers must be what other replicas answered, and what it
// says is durable is kept, for a loss of power to return to.
type simMachine struct {
	replica.Machine
	p     *simProcess
	group cluster.GroupID
	data  *machine.Machine // nil of the meta group

	durable atomic.Uint64
	lastNs  int64  // the greatest acq that was given in this process
	kept    string // a snapshot of the store at that index; guarded by p.mu
}

// keep takes the state that a loss of power leaves.
func (m *simMachine) keep() error {
	if m.data == nil {
		return nil
	}
	dir := m.p.s.newPath("kept")
	_, err := m.data.Store().Snapshot(context.Background(), dir)
	if errors.Is(err, store.ErrClosed) {
		return nil // and so it keeps the state before
	}
	if err != nil {
		return fmt.Errorf("keep a state of group %d: %w", m.group, err)
	}
	m.p.mu.Lock()
	old := m.kept
	m.kept = dir
	m.p.mu.Unlock()
	m.durable.Store(m.Machine.Applied())
	if old == "" {
		return nil
	}
	return os.RemoveAll(old)
}

func (m *simMachine) Durable() uint64 {
	switch {
	case m.data == nil:
		return m.Machine.Durable()
	case m.p.s.bug == bugDurable:
		return m.Machine.Applied()
	}
	return m.durable.Load()
}

func (m *simMachine) Sync() error {
	if m.p.s.bug == bugDurable && m.data != nil {
		return nil
	}
	if err := m.Machine.Sync(); err != nil {
		return err
	}
	return m.keep()
}

func (m *simMachine) Apply(entries []replica.Entry, results []any) error {
	before := m.Machine.Applied()
	if m.data != nil {
		entries = m.p.s.spoil(m, entries)
	}
	err := m.Machine.Apply(entries, results)
	for i, e := range entries {
		if e.Index > before && e.Index <= m.Machine.Applied() && results[i] != nil {
			m.p.s.agree(m, e, results[i])
		}
	}
	if m.data != nil && err == nil && m.Machine.Durable() > m.durable.Load() {
		err = m.keep() // an event or a seal has synced it
	}
	return err
}

func (m *simMachine) Install(
	ctx context.Context, manifest []byte, fetch replica.Fetch,
) error {
	err := m.Machine.Install(ctx, manifest, fetch)
	if err != nil {
		return err
	}
	m.p.s.count("installs")
	return m.keep()
}

// copyTree copies the directory of a process as its end leaves it. Sealed segments never change and
// are linked. So is the file that says who the node is, which is replaced and never changed: it
// would know that it is a copy. Stores of which kept has a state are replaced by that.
func copyTree(from, to string, kept map[string]string) error {
	return filepath.WalkDir(from, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rest)
		switch {
		case e.IsDir() && kept[name] != "":
			if err := os.Rename(kept[name], target); err != nil {
				return err
			}
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case filepath.Ext(name) == ".seg", filepath.Base(name) == simSelf:
			return os.Link(name, target)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
}
