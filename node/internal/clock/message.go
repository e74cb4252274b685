package clock

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
)

// Messages between clocks, which node/replica/FORMAT.md section 4 describes: a node sends a ping,
// and the node that hears it answers with a pong.
const (
	kindPing  = 1
	kindPong  = 2
	pingBytes = 16 // kind u8, zero 7 bytes, sent i64
	pongBytes = 48 // kind u8, flags u8, zero 6 bytes, sent i64, boot u64, monotonic, wall, now i64

	flagStepped = 1
	flagOff     = 2
	flagSure    = 4
	flagBehind  = 8
)

var errNoMessage = errors.New("not a message of a clock")

func drawBoot() uint64 { return rand.Uint64() }

// pong is the answer to a ping.
type pong struct {
	stepped     bool
	off         bool
	sure        bool
	behind      bool
	sentNs      int64 // of the ping, on the monotonic clock of its sender
	boot        uint64
	monotonicNs int64
	wallNs      int64
	nowNs       int64
}

func appendPing(dst []byte, sentNs int64) []byte {
	dst = append(dst, kindPing, 0, 0, 0, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(dst, uint64(sentNs))
}

func appendPong(dst []byte, p pong) []byte {
	flags := byte(0)
	if p.stepped {
		flags = flagStepped
	}
	if p.off {
		flags |= flagOff
	}
	if p.sure {
		flags |= flagSure
	}
	if p.behind {
		flags |= flagBehind
	}
	dst = append(dst, kindPong, flags, 0, 0, 0, 0, 0, 0)
	for _, v := range [...]uint64{uint64(p.sentNs), p.boot, uint64(p.monotonicNs),
		uint64(p.wallNs), uint64(p.nowNs)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// parsePing returns when a ping was sent.
func parsePing(src []byte) (sentNs int64, err error) {
	if len(src) != pingBytes || binary.LittleEndian.Uint64(src) != kindPing {
		return 0, errNoMessage
	}
	return int64(binary.LittleEndian.Uint64(src[8:])), nil
}

// parsePong parses a pong. Sums of the times that it returns do not overflow.
func parsePong(src []byte) (p pong, err error) {
	if len(src) != pongBytes {
		return p, errNoMessage
	}
	head := binary.LittleEndian.Uint64(src)
	if head&^((flagStepped|flagOff|flagSure|flagBehind)<<8) != kindPong {
		return p, errNoMessage
	}
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint64(src[at:])) }
	flags := src[1]
	p = pong{stepped: flags&flagStepped != 0, off: flags&flagOff != 0,
		sure: flags&flagSure != 0, behind: flags&flagBehind != 0, sentNs: word(8),
		boot: uint64(word(16)), monotonicNs: word(24), wallNs: word(32), nowNs: word(40)}
	if most := int64(math.MaxInt64 >> 5); p.sentNs > most || p.sentNs < -most ||
		p.monotonicNs > most || p.monotonicNs < -most {
		return p, errNoMessage // nine years
	}
	p.wallNs, p.nowNs = cut(p.wallNs), cut(p.nowNs)
	return p, nil
}

// Ping returns a message that asks another node for its clock.
func (c *Clock) Ping() []byte {
	if c.given != nil {
		return nil
	}
	_, monotonic := c.read()
	return appendPing(nil, monotonic)
}

// Hear takes a message of another node, and returns what to answer, if anything. It does not keep
// the message.
func (c *Clock) Hear(node uint64, message []byte) (answer []byte) {
	if c.given != nil {
		return nil
	}
	if sent, err := parsePing(message); err == nil {
		return c.pong(sent)
	}
	p, err := parsePong(message)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, monotonic := c.read()
	delay := monotonic - p.sentNs
	if delay < 0 || p.sentNs < c.beganNs {
		return nil // it answers a process that has ended
	}
	one := c.peers.add(node, p.boot, sample{apartNs: p.monotonicNs - p.sentNs - delay/2,
		delayNs: delay, atNs: monotonic})
	if one == nil {
		return nil
	}
	one.wall, one.now = p.wallNs-p.monotonicNs, p.nowNs-p.monotonicNs
	one.stepped, one.behind, one.off, one.sure = p.stepped, p.behind, p.off, p.sure
	c.judge()
	return nil
}

func (c *Clock) pong(sentNs int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look()
	wall, monotonic := c.read()
	now := wall
	if c.stepped {
		now = c.anchor.Load() + monotonic
	}
	return appendPong(nil, pong{stepped: c.stepped, off: c.peers.verdict.against(),
		sure: c.peers.sure, behind: c.behind(wall), sentNs: sentNs, boot: c.peers.boot,
		monotonicNs: monotonic, wallNs: wall, nowNs: now})
}
