package replica

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// position is where an entry lies in the shared log.
type position struct {
	term   uint64
	file   uint32
	offset uint32 // of its frame
	size   uint32 // of its frame
	conf   bool   // it changes members
}

// groupLog is what the shared log holds of one group. It changes by frames alone, in note, and by
// the same ones when they are written and when they are read at open.
type groupLog struct {
	journal *journal
	group   GroupID
	number  uint64 // of the group's last frame; the flusher's

	mu         sync.Mutex // guards everything below
	id         identity
	dropped    bool
	cutIndex   uint64 // entries through it are gone
	cutTerm    uint64
	first      uint64 // index of entries[0]; cutIndex+1 but while a log is being opened
	entries    []position
	bytes      int64 // of the frames of entries
	installing *frame
	damage     error
	promises   promises // of other replicas, as noted
	fenced     error    // it knows less than it promised
	cacheFirst uint64
	cache      []*pb.Entry // the newest entries, without gap through the last
	cacheBytes int
}

func (g *groupLog) last() uint64 {
	if len(g.entries) == 0 {
		return g.cutIndex
	}
	return g.first + uint64(len(g.entries)) - 1
}

// note takes in a frame. Its errors are damage: they say that the frame is not what this program
// writes.
func (g *groupLog) note(f *frame, at position) error {
	switch f.kind {
	case kindEntry:
		if len(f.payload) == 0 {
			return fmt.Errorf("entry %d has no type", f.index)
		}
		at.term, at.conf = f.term, f.payload[0] != byte(pb.EntryNormal)
		g.append(f.index, at)
	case kindHardState:
		if len(f.payload) != 8 {
			return fmt.Errorf("a vote of %d bytes", len(f.payload))
		}
		g.id.term, g.id.commit = f.term, f.index
		g.id.vote = binary.LittleEndian.Uint64(f.payload)
	case kindCreated, kindCheckpoint:
		id, ok := parseIdentity(f.payload)
		if !ok {
			return fmt.Errorf("a replica that cannot be read")
		}
		g.id, g.dropped = id, false
		if f.kind == kindCreated { // a new replica: what was lost was of another
			g.damage, g.installing, g.fenced = nil, nil, nil
			g.clear(f.index, f.term)
		} else {
			g.truncate(f.index, f.term)
		}
	case kindTruncated:
		g.truncate(f.index, f.term)
	case kindDropped:
		if len(f.payload) != 8 {
			return fmt.Errorf("a dropped replica of %d bytes", len(f.payload))
		}
		g.id = identity{replica: binary.LittleEndian.Uint64(f.payload),
			config: config{state: &pb.ConfState{}}}
		g.dropped, g.damage, g.installing, g.fenced, g.promises = true, nil, nil, nil, nil
		g.clear(0, 0)
	case kindQuarantined:
		g.damage = fmt.Errorf("%s", f.payload)
	case kindPromised:
		all, rest, ok := parsePromises(f.payload)
		if !ok || len(rest) > 0 {
			return fmt.Errorf("promises that cannot be read")
		}
		g.promises = all
	case kindFenced:
		if g.fenced = nil; len(f.payload) > 0 {
			g.fenced = fmt.Errorf("%s", f.payload)
		}
	default:
		return g.noteConfig(f)
	}
	return nil
}

func (g *groupLog) noteConfig(f *frame) error {
	c, rest, ok := parseConfig(f.payload)
	if !ok || len(rest) > 0 {
		return fmt.Errorf("members that cannot be read")
	}
	switch f.kind {
	case kindInstalling:
		kept := *f
		kept.payload = slices.Clone(f.payload)
		g.installing = &kept
		return nil
	case kindInstalled:
		g.clear(f.index, f.term)
		g.id.commit = max(g.id.commit, f.index)
		g.installing = nil
	}
	g.id.config = c
	return nil
}

func (g *groupLog) append(index uint64, at position) {
	if index > g.last()+1 || len(g.entries) > 0 && index < g.first {
		// At open only: what lies between was rewritten at the head, and comes.
		g.entries, g.bytes = g.entries[:0], 0
	}
	if len(g.entries) == 0 {
		g.first = index
	}
	keep := index - g.first
	for _, p := range g.entries[keep:] {
		g.bytes -= int64(p.size)
	}
	g.entries = append(g.entries[:keep], at)
	g.bytes += int64(at.size)
}

// move notes that an entry was written once more. Its group must never see the log without it.
func (g *groupLog) move(index uint64, to position) { g.entries[index-g.first] = to }

func (g *groupLog) clear(index, term uint64) {
	g.entries, g.bytes, g.cache, g.cacheBytes = nil, 0, nil, 0
	g.cutIndex, g.cutTerm, g.first = index, term, index+1
}

func (g *groupLog) truncate(index, term uint64) {
	if index <= g.cutIndex {
		return
	}
	g.cutIndex, g.cutTerm = index, term
	drop := 0
	for drop < len(g.entries) && g.first+uint64(drop) <= index {
		g.bytes -= int64(g.entries[drop].size)
		drop++
	}
	g.entries = slices.Delete(g.entries, 0, drop)
	g.first += uint64(drop)
	if len(g.entries) == 0 {
		g.first = index + 1
	}
	for len(g.cache) > 0 && g.cacheFirst <= index {
		g.uncache()
	}
}

// uncache forgets the oldest cached entry.
func (g *groupLog) uncache() {
	g.cacheBytes -= len(g.cache[0].Data)
	g.cache[0] = nil
	g.cache = g.cache[1:]
	g.cacheFirst++
}

// remember caches an entry that was just written.
func (g *groupLog) remember(e *pb.Entry, limit int) {
	index := e.GetIndex()
	if len(g.cache) == 0 || index > g.cacheFirst+uint64(len(g.cache)) || index < g.cacheFirst {
		g.cache, g.cacheBytes, g.cacheFirst = g.cache[:0], 0, index
	}
	for g.cacheFirst+uint64(len(g.cache)) > index {
		g.cacheBytes -= len(g.cache[len(g.cache)-1].Data)
		g.cache = g.cache[:len(g.cache)-1]
	}
	g.cache = append(g.cache, e)
	g.cacheBytes += len(e.Data)
	for g.cacheBytes > limit && len(g.cache) > 1 {
		g.uncache()
	}
}

// checkWhole says what is missing between the cut and the last entry, once a log has been read.
func (g *groupLog) checkWhole() error {
	if len(g.entries) > 0 && g.first > g.cutIndex+1 {
		return fmt.Errorf("entries %d to %d are missing", g.cutIndex+1, g.first-1)
	}
	if g.id.commit > g.last() {
		return fmt.Errorf("entries %d to %d were committed and are missing", g.last()+1,
			g.id.commit)
	}
	return nil
}

// InitialState is part of raft.Storage.
func (g *groupLog) InitialState() (*pb.HardState, *pb.ConfState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hs := &pb.HardState{Term: new(g.id.term), Vote: new(g.id.vote), Commit: new(g.id.commit)}
	return hs, g.id.config.state, nil
}

// FirstIndex is part of raft.Storage.
func (g *groupLog) FirstIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cutIndex + 1, nil
}

// LastIndex is part of raft.Storage.
func (g *groupLog) LastIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last(), nil
}

// Term is part of raft.Storage.
func (g *groupLog) Term(index uint64) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case index == g.cutIndex:
		return g.cutTerm, nil
	case index < g.cutIndex:
		return 0, raft.ErrCompacted
	case index > g.last():
		return 0, raft.ErrUnavailable
	}
	return g.entries[index-g.first].term, nil
}

// Entries is part of raft.Storage. What it reads from files it checks; its error then quarantines
// the group.
func (g *groupLog) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lo <= g.cutIndex {
		return nil, raft.ErrCompacted
	}
	if hi > g.last()+1 {
		return nil, raft.ErrUnavailable
	}
	var out []*pb.Entry
	size := uint64(0)
	for i := lo; i < hi; i++ {
		at := g.entries[i-g.first]
		size += uint64(at.size)
		if len(out) > 0 && size > maxSize {
			break
		}
		if len(g.cache) > 0 && i >= g.cacheFirst {
			out = append(out, g.cache[i-g.cacheFirst])
			continue
		}
		// The lock is held over the read, so the file cannot go meanwhile.
		e, err := g.journal.read(g.group, i, at)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// firstConfAfter returns the index of the first entry in (from, to] that changes members, or 0.
func (g *groupLog) firstConfAfter(from, to uint64) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := max(from+1, g.first); i <= min(to, g.last()); i++ {
		if g.entries[i-g.first].conf {
			return i
		}
	}
	return 0
}
