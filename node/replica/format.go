package replica

import (
	"encoding/binary"
	"slices"

	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/sdk/crc32c"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Layout of a file of the shared log, FORMAT.md section 1.
const (
	flushMagic       = 0x31525450 // "PTR1"
	flushVersion     = 2          // 1: first; 2: whole sectors, masked
	flushHeaderBytes = 40         // magic u32, version u16, zero u16, sequence u64, start u64,
	//                               size u32, frames u32, nearZero u32, crc u32 of all of it but
	//                               itself
	frameHeaderBytes = 40 // size u32, crc u32, group u32, kind u8, zero [3], number u64,
	//                       term u64, index u64

	// maxFlushBytes bounds one flush; a larger size in a file is damage.
	maxFlushBytes = 256 << 20
)

// Kinds of frames. Numbers are for ever.
const (
	kindEntry       = 1 // an entry of the group's log: type u8, data
	kindHardState   = 2 // term, commit in the place of index; vote
	kindCreated     = 3 // the first frame of a replica: identity
	kindCheckpoint  = 4 // the same of a replica that is there, at the head of each file
	kindTruncated   = 5 // entries through index are not needed any more
	kindConfigured  = 6 // members as of index
	kindInstalling  = 7 // a snapshot of index is about to replace the state: members
	kindInstalled   = 8 // it has replaced the state: all earlier entries are void; members
	kindDropped     = 9 // the replica is gone and its id never comes back: replica
	kindQuarantined = 10
	kindPromised    = 11 // what other replicas are known to have promised: all of it
	kindFenced      = 12 // it knows less than it promised: why; an empty text takes it back
	lastKind        = kindFenced
)

// frame is one record of the shared log; payload aliases what it was parsed from.
type frame struct {
	group       GroupID
	kind        uint8
	number      uint64 // 1 for the first frame of a group, then one more each
	term, index uint64
	payload     []byte
}

// appendFrame appends a frame whose payload is in two parts.
func appendFrame(dst []byte, f *frame, first byte, hasFirst bool) []byte {
	size := len(f.payload)
	if hasFirst {
		size++
	}
	at := len(dst)
	dst = slices.Grow(dst, frameHeaderBytes+size)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(size))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, stored(f.group))
	dst = append(dst, f.kind, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, f.number)
	dst = binary.LittleEndian.AppendUint64(dst, f.term)
	dst = binary.LittleEndian.AppendUint64(dst, f.index)
	if hasFirst {
		dst = append(dst, first)
	}
	dst = append(dst, f.payload...)
	binary.LittleEndian.PutUint32(dst[at+4:], frameSum(dst[at:]))
	return dst
}

// frameSum covers everything of a frame but the sum itself.
func frameSum(src []byte) uint32 {
	sum := crc32c.Update(0, src[:4])
	return crc32c.Update(sum, src[8:])
}

// parseFrame parses the frame that src begins with; reason says why there is none.
func parseFrame(src []byte) (f frame, rest []byte, reason string) {
	if len(src) < frameHeaderBytes {
		return f, nil, "it ends inside the header of a frame"
	}
	size := uint64(binary.LittleEndian.Uint32(src))
	if size > uint64(len(src)-frameHeaderBytes) {
		return f, nil, "it ends inside a frame"
	}
	whole := src[:frameHeaderBytes+size]
	if frameSum(whole) != binary.LittleEndian.Uint32(src[4:]) {
		return f, nil, "the checksum of a frame differs"
	}
	f = frame{group: groupAt(src[8:]), kind: src[12],
		number: binary.LittleEndian.Uint64(src[16:]), term: binary.LittleEndian.Uint64(src[24:]),
		index:   binary.LittleEndian.Uint64(src[32:]),
		payload: whole[frameHeaderBytes:len(whole):len(whole)]}
	if src[13]|src[14]|src[15] != 0 || f.kind == 0 || f.kind > lastKind || f.number == 0 {
		return f, nil, "a frame is of an unknown kind"
	}
	return f, src[len(whole):], ""
}

// flush is the header of a flush.
type flush struct {
	seq      uint64
	start    uint64
	size     uint32 // of the frames
	frames   uint32
	nearZero uint32 // sectors after the first with at most one bit set
	// version is of one whose checksum holds; the writer takes its own.
	version uint32
}

// end returns the offset after the flush and its padding.
func (f *flush) end() uint64 {
	return f.start + sector.Round(flushHeaderBytes+uint64(f.size))
}

// sealFlush makes a flush of a buffer that has space for a header and then frames: it pads it to
// whole sectors, masks what follows the header, and writes the header. It sets the sizes of f.
func sealFlush(buf []byte, f flush) []byte {
	f.size = uint32(len(buf) - flushHeaderBytes)
	buf = append(buf, make([]byte, f.end()-f.start-uint64(len(buf)))...)
	sector.Mask(buf[flushHeaderBytes:])
	f.nearZero = sector.NearZero(buf[sector.Size:])
	binary.LittleEndian.PutUint32(buf, flushMagic)
	binary.LittleEndian.PutUint32(buf[4:], flushVersion)
	binary.LittleEndian.PutUint64(buf[8:], f.seq)
	binary.LittleEndian.PutUint64(buf[16:], f.start)
	binary.LittleEndian.PutUint32(buf[24:], f.size)
	binary.LittleEndian.PutUint32(buf[28:], f.frames)
	binary.LittleEndian.PutUint32(buf[32:], f.nearZero)
	binary.LittleEndian.PutUint32(buf[36:], crc32c.Sum(buf[:36]))
	return buf
}

// parseFlush parses a header that is at an offset of its file. Torn says of one that cannot be read
// that it may never have been written.
func parseFlush(src []byte, start uint64) (f flush, reason string, torn bool) {
	switch {
	case sector.IsZero(src[:min(sector.Size, len(src))]):
		return f, "the first sector of a flush is not written", true
	case len(src) < flushHeaderBytes:
		return f, "the file ends inside the header of a flush", true
	case binary.LittleEndian.Uint32(src) != flushMagic:
		return f, "no flush starts here", false
	case binary.LittleEndian.Uint32(src[4:]) == 1 &&
		crc32c.Sum(src[:32]) == binary.LittleEndian.Uint32(src[32:]):
		// Version 1 had shorter headers. From 2 on, the first 40 bytes are those of the header in
		// every version.
		return flush{version: 1}, "the flush is of version 1", false
	case crc32c.Sum(src[:36]) != binary.LittleEndian.Uint32(src[36:]):
		return f, "the checksum of a header differs", false
	}
	f = flush{seq: binary.LittleEndian.Uint64(src[8:]), start: binary.LittleEndian.Uint64(src[16:]),
		size: binary.LittleEndian.Uint32(src[24:]), frames: binary.LittleEndian.Uint32(src[28:]),
		nearZero: binary.LittleEndian.Uint32(src[32:])}
	f.version = binary.LittleEndian.Uint32(src[4:])
	if f.version != flushVersion || f.seq == 0 || f.start != start || f.size > maxFlushBytes {
		return f, "the flush is of another version or belongs to another place", false
	}
	return f, "", false
}

// config is who belongs to a group as of an index. newest has, sorted, the newest replica that
// each node ever had there: an older one, or the same after it was removed, never comes back.
type config struct {
	index  uint64
	state  *pb.ConfState
	newest []uint64
}

func (c *config) lists() []*[]uint64 {
	s := c.state
	return []*[]uint64{&s.Voters, &s.Learners, &s.VotersOutgoing, &s.LearnersNext, &c.newest}
}

func appendConfig(dst []byte, c *config) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, c.index)
	leave := byte(0)
	if c.state.GetAutoLeave() {
		leave = 1
	}
	dst = append(dst, leave)
	for _, list := range c.lists() {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(*list)))
		for _, id := range *list {
			dst = binary.LittleEndian.AppendUint64(dst, id)
		}
	}
	return dst
}

// parseConfig parses a whole config and returns what follows it.
func parseConfig(src []byte) (c config, rest []byte, ok bool) {
	if len(src) < 9 || src[8] > 1 {
		return c, nil, false
	}
	c = config{index: binary.LittleEndian.Uint64(src), state: &pb.ConfState{}}
	if src[8] == 1 {
		c.state.AutoLeave = new(true)
	}
	src = src[9:]
	for _, list := range c.lists() {
		if len(src) < 4 {
			return c, nil, false
		}
		count := uint64(binary.LittleEndian.Uint32(src))
		src = src[4:]
		if count > uint64(len(src)/8) {
			return c, nil, false
		}
		for range count {
			*list = append(*list, binary.LittleEndian.Uint64(src))
			src = src[8:]
		}
	}
	return c, src, true
}

// identity is what is known of a replica but its entries.
type identity struct {
	replica            uint64
	term, vote, commit uint64
	config             config
}

func appendIdentity(dst []byte, id *identity) []byte {
	for _, v := range [...]uint64{id.replica, id.term, id.vote, id.commit} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return appendConfig(dst, &id.config)
}

func parseIdentity(src []byte) (id identity, ok bool) {
	if len(src) < 32 {
		return id, false
	}
	id = identity{replica: binary.LittleEndian.Uint64(src),
		term: binary.LittleEndian.Uint64(src[8:]),
		vote: binary.LittleEndian.Uint64(src[16:]), commit: binary.LittleEndian.Uint64(src[24:])}
	c, rest, ok := parseConfig(src[32:])
	id.config = c
	return id, ok && len(rest) == 0
}
