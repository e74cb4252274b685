package layout

import (
	"encoding/binary"
	"errors"

	"github.com/pentad-db/pentad/sdk/crc32c"
)

const (
	// WritersMagic begins the file WRITERS.
	WritersMagic = 0x31575450 // "PTW1"
	// MaxAnswers is how many answers are kept per writer: the greatest number of batches that a
	// client may have in flight and still retry.
	MaxAnswers = 64
	// WriterBytes is what a writer takes in the file besides its answers.
	WriterBytes = 16 + 8 + 8 + 4

	answerBytes = 8 + 8 + 4
)

// Writer is what the file WRITERS says of a writer.
type Writer struct {
	ID        [16]byte
	High      uint64 // its greatest sequence
	LastAcqNs int64
	Answers   []Answer
}

// Answer is the answer to a batch of a writer.
type Answer struct {
	Seq     uint64
	FirstNs int64 // acq of the first record
	Records uint32
}

// ParseWriters reads the file WRITERS and calls visit for each writer, which it lends for the call:
// magic u32, count u32, then per writer id, high u64, last acq i64, n u32 and n answers {seq u64,
// first acq i64, records u32}, then crc32c over all before it.
func ParseWriters(buf []byte, visit func(*Writer)) error {
	if len(buf) < 12 || binary.LittleEndian.Uint32(buf) != WritersMagic {
		return errors.New("not a writers table")
	}
	body, sum := buf[:len(buf)-4], binary.LittleEndian.Uint32(buf[len(buf)-4:])
	if crc32c.Sum(body) != sum {
		return errors.New("checksum differs")
	}
	count, rest := binary.LittleEndian.Uint32(body[4:]), body[8:]
	var w Writer
	for range count {
		if len(rest) < WriterBytes {
			return errors.New("ends inside a writer")
		}
		w.ID, w.High = [16]byte(rest[:16]), binary.LittleEndian.Uint64(rest[16:])
		w.LastAcqNs, w.Answers = int64(binary.LittleEndian.Uint64(rest[24:])), w.Answers[:0]
		n := binary.LittleEndian.Uint32(rest[32:])
		rest = rest[WriterBytes:]
		if n > MaxAnswers || uint64(len(rest)) < uint64(n)*answerBytes {
			return errors.New("ends inside the answers of a writer")
		}
		for range n {
			w.Answers = append(w.Answers, Answer{
				Seq:     binary.LittleEndian.Uint64(rest),
				FirstNs: int64(binary.LittleEndian.Uint64(rest[8:])),
				Records: binary.LittleEndian.Uint32(rest[16:]),
			})
			rest = rest[answerBytes:]
		}
		visit(&w)
	}
	if len(rest) != 0 {
		return errors.New("bytes follow the last writer")
	}
	return nil
}
