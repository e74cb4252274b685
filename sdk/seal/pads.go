package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// The pads of a field in a chain are the keystream of AES-256-CTR from counter 0, cut into rows of
// as many bytes as its lanes have: row i belongs to sequence number i, and row 0 to none. A record
// is its lanes plus row i minus row i-1, so the sum of the records a to b is the sum of their lanes
// plus row b minus row a-1.

// padBlock makes single rows. One goroutine uses it.
type padBlock struct {
	block cipher.Block
	width int // bytes of a row
	// Scratch is here because what goes through an interface would be allocated.
	counter [aes.BlockSize]byte
	stream  []byte
}

func newPadBlock(key *Key, width int) *padBlock {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("BUG: " + err.Error()) // only for other sizes of keys
	}
	return &padBlock{block: block, width: width,
		stream: make([]byte, (width/aes.BlockSize+2)*aes.BlockSize)}
}

// row returns the row of a sequence number, valid until the next call.
func (p *padBlock) row(seq uint64) []byte {
	from := seq * uint64(p.width)
	first, offset := from/aes.BlockSize, int(from%aes.BlockSize)
	for at := 0; at < offset+p.width; at += aes.BlockSize {
		binary.BigEndian.PutUint64(p.counter[8:], first)
		p.block.Encrypt(p.stream[at:at+aes.BlockSize], p.counter[:])
		first++
	}
	return p.stream[offset : offset+p.width]
}

// from returns the keystream from a row on.
func (p *padBlock) from(seq uint64) cipher.Stream {
	begin := seq * uint64(p.width)
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[8:], begin/aes.BlockSize)
	s := cipher.NewCTR(p.block, counter[:])
	var skipped [aes.BlockSize]byte
	s.XORKeyStream(skipped[:begin%aes.BlockSize], skipped[:begin%aes.BlockSize])
	return s
}

// aheadRows is how many rows a padStream makes at once: one call of the cipher costs as much as
// some hundred bytes of keystream.
const aheadRows = 64

// padStream makes rows one after the other.
type padStream struct {
	stream cipher.Stream
	width  int
	rows   []byte // of aheadRows and the one before them
	next   int    // present row in rows
}

// newPadStream returns the rows from a sequence number on, which is present after one advance.
func newPadStream(p *padBlock, seq uint64) *padStream {
	s := &padStream{stream: p.from(seq - 1), width: p.width,
		rows: make([]byte, (aheadRows+1)*p.width)}
	s.stream.XORKeyStream(s.rows, s.rows)
	return s
}

// advance makes the next row the present one.
func (s *padStream) advance() {
	if s.next++; s.next > aheadRows {
		s.refill()
	}
}

func (s *padStream) refill() {
	copy(s.rows, s.rows[aheadRows*s.width:])
	fresh := s.rows[s.width:]
	clear(fresh)
	s.stream.XORKeyStream(fresh, fresh)
	s.next = 1
}

// pair returns the present row, from a byte on, and the one before it, valid until it advances.
func (s *padStream) pair(from int) (row, before []byte) {
	at := s.next*s.width + from
	return s.rows[at:], s.rows[at-s.width:]
}
