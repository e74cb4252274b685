package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

const (
	// maxTransfers bounds the snapshots that a node gives, and those that it takes, at a time:
	// when a node comes back, all of its groups may need one.
	maxTransfers = 2
	// A snapshot is removed when it was not read for snapshotIdle, or after snapshotAge. A follower
	// of which nothing was heard for snapshotStuck is offered one again, and of a new one it is
	// heard within snapshotTaken.
	snapshotTaken = 2 * time.Second
	snapshotStuck = 15 * time.Second
	snapshotIdle  = time.Minute
	snapshotAge   = 30 * time.Minute
	// maxPinnedBytes of log are kept for followers that install a snapshot.
	maxPinnedBytes = 4 << 30
	// maxReopens in a row without a byte end a fetch.
	maxReopens = 5
)

// ErrSnapshotGone is the error of reading a snapshot that its node does not hold any more.
var ErrSnapshotGone = errors.New("the snapshot is not there any more")

// SnapshotFile names a part of a file of a snapshot that a node holds.
type SnapshotFile struct {
	Group  GroupID
	Index  uint64
	Name   string
	Offset int64
}

// handle is a snapshot that followers may read.
type handle struct {
	snapshot Snapshot
	message  *pb.Snapshot
	members  uint64 // index of the config in it
	made     time.Duration
	used     time.Duration
	readers  int
}

// outgoing are the snapshots that a node holds, and how many it takes.
type outgoing struct {
	mu     sync.Mutex // guards everything below
	live   map[GroupID]*handle
	making int
	taking int
}

// enter takes a slot for taking a snapshot.
func (o *outgoing) enter() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taking >= maxTransfers {
		return false
	}
	o.taking++
	return true
}

func (o *outgoing) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taking--
}

// reserve takes a slot for making one.
func (o *outgoing) reserve() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.live)+o.making >= maxTransfers {
		return false
	}
	o.making++
	return true
}

func (o *outgoing) add(group GroupID, h *handle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.making--
	if h != nil {
		o.live[group] = h
	}
}

func (o *outgoing) get(group GroupID) *handle {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[group]
}

// expire closes what is read no longer.
func (o *outgoing) expire(c *Core) {
	now := c.opt.Now()
	o.mu.Lock()
	var gone []Snapshot
	for group, h := range o.live {
		if h.readers == 0 && (now-h.used > snapshotIdle || now-h.made > snapshotAge) {
			delete(o.live, group)
			gone = append(gone, h.snapshot)
		}
	}
	o.mu.Unlock()
	for _, s := range gone {
		s.Close()
	}
}

func (o *outgoing) close() {
	o.mu.Lock()
	live := o.live
	o.live = map[GroupID]*handle{}
	o.mu.Unlock()
	for _, h := range live {
		h.snapshot.Close()
	}
}

// pinned returns the index above which the log is needed by who installs a snapshot.
func (o *outgoing) pinned(g *group, bytes int64) uint64 {
	h := o.get(g.id)
	if h == nil || bytes > maxPinnedBytes || g.core.opt.Now()-h.made > snapshotAge {
		return math.MaxUint64
	}
	return h.message.GetMetadata().GetIndex()
}

func (o *outgoing) usedAt(h *handle) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return h.used
}

// snapshot is what the library gets when a follower needs more than the log has. One from before
// the last change of members may not know the follower.
func (g *group) snapshot() (*pb.Snapshot, error) {
	h := g.core.snaps.get(g.id)
	first, _ := g.log.FirstIndex()
	if h != nil && h.members == g.config.index && h.message.GetMetadata().GetIndex()+1 >= first {
		g.core.snaps.touch(g, h)
		return h.message, nil
	}
	if h != nil && !g.core.snaps.discard(g.id, h) {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	if !g.makingSnap && g.core.snaps.reserve() {
		g.makingSnap = true
		g.applies(func() {
			s, err := g.machine.Snapshot()
			g.post(func() { g.addSnapshot(s, err) })
		})
	}
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// discard closes a snapshot, unless it is being read.
func (o *outgoing) discard(group GroupID, h *handle) bool {
	o.mu.Lock()
	free := h.readers == 0 && o.live[group] == h
	if free {
		delete(o.live, group)
	}
	o.mu.Unlock()
	if free {
		h.snapshot.Close()
	}
	return free
}

func (o *outgoing) touch(g *group, h *handle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h.used = g.core.opt.Now()
}

// addSnapshot takes a new snapshot in. All changes of members up to its index have been applied
// here, and no later one, because machines and workers hand on in order: so the members are those
// of its index.
func (g *group) addSnapshot(s Snapshot, err error) {
	g.makingSnap = false
	var term uint64
	if err == nil {
		term, err = g.log.Term(s.Index())
	}
	if err != nil || g.err != nil {
		if s != nil {
			s.Close()
		}
		g.core.snaps.add(g.id, nil) // the next attempt to send one makes one
		return
	}
	offer := snapshotOffer{node: g.core.opt.Node, config: g.config, manifest: s.Manifest()}
	now := g.core.opt.Now()
	g.core.snaps.add(g.id, &handle{snapshot: s, members: g.config.index, made: now,
		used: now, message: &pb.Snapshot{
			Data: appendOffer(nil, &offer), Metadata: &pb.SnapshotMetadata{
				ConfState: g.config.state, Index: new(s.Index()), Term: new(term)}}})
}

// offerAgain offers a snapshot again to followers that have not fetched of one for long, and lets
// go of one that no follower waits for, because others wait for its place.
func (g *group) offerAgain() {
	h, now := g.core.snaps.get(g.id), g.core.opt.Now()
	if !g.leads {
		if h != nil && now-g.core.snaps.usedAt(h) > snapshotTaken {
			g.core.snaps.discard(g.id, h) // who leads now offers its own
		}
		return
	}
	var waiting []uint64
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.State == tracker.StateSnapshot {
			waiting = append(waiting, id)
		}
	})
	switch {
	case len(waiting) == 0 && h != nil && now-h.made > snapshotTaken:
		g.core.snaps.discard(g.id, h)
	case h == nil || now-g.core.snaps.usedAt(h) > snapshotStuck:
		for _, id := range waiting {
			g.node.ReportSnapshot(id, raft.SnapshotFailure)
		}
	}
}

// OpenSnapshot opens a file of a snapshot that this node holds, for another.
func (c *Core) OpenSnapshot(file SnapshotFile) (io.ReadCloser, error) {
	h := c.snaps.borrow(file)
	if h == nil {
		return nil, fmt.Errorf("open %s of snapshot %d of %v: %w", file.Name, file.Index,
			groupName(file.Group), ErrSnapshotGone)
	}
	out := &openSnapshotFile{core: c, handle: h}
	r, err := h.snapshot.Open(file.Name)
	if err == nil {
		out.ReadCloser = r
		_, err = io.CopyN(io.Discard, r, file.Offset)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s of snapshot %d of %v: %w", file.Name,
			file.Index, groupName(file.Group), err), out.Close())
	}
	return out, nil
}

func (o *outgoing) borrow(file SnapshotFile) *handle {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.live[file.Group]
	if h == nil || h.message.GetMetadata().GetIndex() != file.Index || file.Offset < 0 {
		return nil
	}
	h.readers++
	return h
}

// openSnapshotFile is a file of a snapshot that is being read.
type openSnapshotFile struct {
	io.ReadCloser
	core   *Core
	handle *handle
}

func (l *openSnapshotFile) Read(p []byte) (int, error) {
	l.core.snaps.mu.Lock()
	l.handle.used = l.core.opt.Now()
	l.core.snaps.mu.Unlock()
	return l.ReadCloser.Read(p)
}

func (l *openSnapshotFile) Close() error {
	l.core.snaps.mu.Lock()
	l.handle.readers--
	l.core.snaps.mu.Unlock()
	if l.ReadCloser == nil {
		return nil
	}
	return l.ReadCloser.Close()
}

// snapshotOffer is what a snapshot says in the library's message: who has it, the members as of its
// index, and the machine's manifest.
type snapshotOffer struct {
	node     uint64
	config   config
	manifest []byte
}

func appendOffer(dst []byte, o *snapshotOffer) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, o.node)
	return append(appendConfig(dst, &o.config), o.manifest...)
}

// parseOffer parses an offer; the manifest aliases it.
func parseOffer(src []byte) (o snapshotOffer, ok bool) {
	if len(src) < 8 {
		return o, false
	}
	o.node = binary.LittleEndian.Uint64(src)
	o.config, o.manifest, ok = parseConfig(src[8:])
	return o, ok
}

// install replaces the machine's state. What the library gives to the log meanwhile waits. When
// it fails the library's node is made again from the log, as if the process had been killed.
func (g *group) install(m *pb.Message) {
	meta := m.GetSnapshot().GetMetadata()
	o, ok := parseOffer(m.GetSnapshot().GetData())
	if !ok {
		g.stop(fmt.Errorf("%w: the snapshot cannot be read", ErrStopped))
		return
	}
	o.config.state = meta.GetConfState()
	f := frame{kind: kindInstalling, term: meta.GetTerm(), index: meta.GetIndex(),
		payload: appendConfig(nil, &o.config)}
	ctx, cancel := context.WithCancel(context.Background())
	g.installing, g.uninstall = true, cancel
	installed := f
	installed.kind = kindInstalled
	end := func(err error) {
		cancel()
		g.core.snaps.leave()
		g.installing = false
		deferred := g.deferred
		g.deferred = nil
		switch {
		case g.err != nil:
		case err != nil:
			g.epoch++
			if err := g.begin(); err != nil {
				g.stop(err)
			}
		default:
			g.applied, g.config, g.changes = f.index, o.config, nil
			g.write(m, []record{{group: g.log, frame: installed}})
			for _, m := range deferred {
				g.append(m)
			}
		}
	}
	// The commit index is that of the snapshot. Until that is installed, it would declare entries
	// committed that another leader never had.
	before := append(g.hardState(m, g.commit), record{group: g.log, frame: f})
	g.core.flusher.add(&job{records: before,
		sync: true, done: func(err error) {
			if err != nil {
				g.post(func() { g.stop(err); end(err) })
				return
			}
			g.applies(func() {
				err := g.machine.Install(ctx, slices.Clone(o.manifest), g.fetch(o.node, f.index))
				if err == nil && g.machine.Applied() != f.index {
					err = fmt.Errorf("BUG: the machine of %v installed a snapshot of %d and "+
						"is at %d", groupName(g.id), f.index, g.machine.Applied())
				}
				g.post(func() { end(err) })
			})
		}})
}

// fetch returns how the machine reads files of a snapshot.
func (g *group) fetch(node, index uint64) Fetch {
	return func(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
		r := &fetched{file: SnapshotFile{Group: g.id, Index: index, Name: name, Offset: offset}}
		r.open = func() (err error) {
			r.r, err = g.core.opt.Network.Open(ctx, node, r.file)
			return err
		}
		return r, r.open()
	}
}

// fetched reads a file and goes on where it was when the connection breaks.
type fetched struct {
	open   func() error
	file   SnapshotFile
	r      io.ReadCloser
	failed int // times in a row without a byte
}

func (f *fetched) Read(p []byte) (int, error) {
	for {
		var err error
		if f.r == nil {
			err = f.open()
		}
		n := 0
		if err == nil {
			n, err = f.r.Read(p)
		}
		f.file.Offset += int64(n)
		if n > 0 {
			f.failed = 0
		}
		if n > 0 || err == nil || err == io.EOF {
			return n, eof(err)
		}
		f.failed++
		if f.failed > maxReopens || errors.Is(err, ErrSnapshotGone) {
			return 0, err
		}
		_ = f.Close()
	}
}

// eof lets only the end of a file end the reading along with bytes: other errors come again.
func eof(err error) error {
	if err == io.EOF {
		return err
	}
	return nil
}

func (f *fetched) Close() error {
	if f.r == nil {
		return nil
	}
	r := f.r
	f.r = nil
	return r.Close()
}
