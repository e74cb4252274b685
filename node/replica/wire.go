package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pentad-db/pentad/sdk/crc32c"
)

// Layout of what goes between nodes, FORMAT.md section 3.
const (
	helloMagic   = 0x314e5450 // "PTN1"
	helloVersion = 3          // 1: first; 2: nodes ask each other; 3: replicas prove promises
	helloBytes   = 32         // magic u32, version u16, purpose u8, zero u8, cluster u64, from u64,
	//                           to u64

	purposeMessages = 1
	purposeFile     = 2

	batchHeaderBytes   = 8 // size u32, crc u32 of the messages
	messageHeaderBytes = 8 // group u32, size u32
	chunkHeaderBytes   = 12

	// maxBatchBytes bounds what is read as one. The sender ends a batch that has
	// fullBatchBytes, and sends a message that has more by itself, in fragments.
	maxBatchBytes  = 4 << 20
	fullBatchBytes = 1 << 20
	maxChunkBytes  = 256 << 10
	// unprovenBytes is what a peer gets memory for before it has sent as much.
	unprovenBytes = 64 << 10
	// manyMessages are more than one batch has as a rule.
	manyMessages = 1 << 10
	maxNameBytes = 1 << 10
)

// Kinds of chunks of a file.
const (
	chunkData  = 1
	chunkEnd   = 2
	chunkGone  = 3 // the snapshot is not there any more
	chunkError = 4 // a text
)

var (
	errHostile  = errors.New("the other side does not speak the protocol of nodes")
	errBatchSum = fmt.Errorf("%w: the checksum of a batch differs", errHostile)
)

// hello is what each connection begins with.
type hello struct {
	purpose           uint8
	cluster, from, to uint64
}

func appendHello(dst []byte, h hello) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, helloMagic)
	dst = binary.LittleEndian.AppendUint16(dst, helloVersion)
	dst = append(dst, h.purpose, 0)
	for _, v := range [...]uint64{h.cluster, h.from, h.to} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

func parseHello(src []byte) (h hello, ok bool) {
	if len(src) != helloBytes || binary.LittleEndian.Uint32(src) != helloMagic ||
		binary.LittleEndian.Uint16(src[4:]) != helloVersion || src[7] != 0 {
		return h, false
	}
	h = hello{purpose: src[6], cluster: binary.LittleEndian.Uint64(src[8:]),
		from: binary.LittleEndian.Uint64(src[16:]), to: binary.LittleEndian.Uint64(src[24:])}
	return h, h.purpose == purposeMessages || h.purpose == purposeFile
}

// outMessage is a message on its way to another node.
type outMessage struct {
	head    [messageHeaderBytes]byte
	message []byte
}

func newOutMessage(group GroupID, message []byte) outMessage {
	m := outMessage{message: message}
	binary.LittleEndian.PutUint32(m.head[:], stored(group))
	binary.LittleEndian.PutUint32(m.head[4:], uint32(len(message)))
	return m
}

func (m *outMessage) size() int { return messageHeaderBytes + len(m.message) }

// writeBatch writes messages as one batch.
func writeBatch(w io.Writer, messages []outMessage) error {
	size, sum := 0, uint32(0)
	for i := range messages {
		m := &messages[i]
		size += m.size()
		sum = crc32c.Update(sum, m.head[:])
		sum = crc32c.Update(sum, m.message)
	}
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, batchHeaderBytes), uint32(size))
	if _, err := w.Write(binary.LittleEndian.AppendUint32(head, sum)); err != nil {
		return err
	}
	for i := range messages {
		if _, err := w.Write(messages[i].head[:]); err != nil {
			return err
		}
		if _, err := w.Write(messages[i].message); err != nil {
			return err
		}
	}
	return nil
}

// inbox is what comes over the connection of a peer.
type inbox struct {
	r        io.Reader
	head     [batchHeaderBytes]byte
	came     []inMessage  // of the batch that is being read
	fragment bytes.Buffer // that was read last
	large    []byte       // what came of a message in fragments
}

type inMessage struct {
	group   GroupID
	message []byte
}

// read reads one batch and hands out its messages, which are the receiver's: an entry is kept where
// it came to lie, and is not copied.
func (in *inbox) read(each func(group GroupID, message []byte)) error {
	if _, err := io.ReadFull(in.r, in.head[:]); err != nil {
		return err
	}
	size, sum := binary.LittleEndian.Uint32(in.head[:]), binary.LittleEndian.Uint32(in.head[4:])
	whole := size&fragmentFlag == 0
	if size &^= fragmentFlag; size > maxBatchBytes {
		return fmt.Errorf("%w: a batch of %d bytes", errHostile, size)
	}
	if !whole {
		return in.readFragment(size, sum, each)
	}
	defer func() {
		if clear(in.came); cap(in.came) > manyMessages {
			in.came = nil
		}
	}()
	in.came = in.came[:0]
	got := uint32(0)
	for size > 0 {
		if size < messageHeaderBytes {
			return fmt.Errorf("%w: a batch ends inside a message", errHostile)
		}
		if _, err := io.ReadFull(in.r, in.head[:]); err != nil {
			return unexpectedEOF(err)
		}
		size -= messageHeaderBytes
		n := binary.LittleEndian.Uint32(in.head[4:])
		if n > size {
			return fmt.Errorf("%w: a batch ends inside a message", errHostile)
		}
		message, err := readNew(in.r, int(n))
		if err != nil {
			return err
		}
		got = crc32c.Update(crc32c.Update(got, in.head[:]), message)
		in.came = append(in.came, inMessage{groupAt(in.head[:]), message})
		size -= n
	}
	if got != sum {
		return errBatchSum
	}
	for _, m := range in.came {
		each(m.group, m.message)
	}
	return nil
}

func (in *inbox) readFragment(size, sum uint32, each func(group GroupID, message []byte)) error {
	if err := readSized(in.r, &in.fragment, int64(size)); err != nil {
		return err
	}
	if crc32c.Sum(in.fragment.Bytes()) != sum {
		return errBatchSum
	}
	return in.join(in.fragment.Bytes(), each)
}

// readNew reads as many bytes into memory of their own, of which, beyond a little, there is never
// more than twice what has come.
func readNew(r io.Reader, size int) ([]byte, error) {
	out := make([]byte, min(size, unprovenBytes))
	for have := 0; ; {
		if _, err := io.ReadFull(r, out[have:]); err != nil {
			return nil, unexpectedEOF(err)
		}
		have = len(out)
		if have == size {
			return out, nil
		}
		more := make([]byte, min(2*have, size))
		copy(more, out)
		out = more
	}
}

// unexpectedEOF is for what ends where more was announced.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readSized reads as many bytes; buf grows with what comes, not with what was announced.
func readSized(r io.Reader, buf *bytes.Buffer, size int64) error {
	buf.Reset()
	n, err := buf.ReadFrom(io.LimitReader(r, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// appendRequest appends what asks for a file: group u32, name size u32, index u64, offset u64,
// name.
func appendRequest(dst []byte, f SnapshotFile) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, stored(f.Group))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.Name)))
	dst = binary.LittleEndian.AppendUint64(dst, f.Index)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Offset))
	return append(dst, f.Name...)
}

func readRequest(r io.Reader) (f SnapshotFile, err error) {
	var head [24]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	size := binary.LittleEndian.Uint32(head[4:])
	f = SnapshotFile{Group: groupAt(head[:]),
		Index:  binary.LittleEndian.Uint64(head[8:]),
		Offset: int64(binary.LittleEndian.Uint64(head[16:]))}
	if size > maxNameBytes || f.Offset < 0 {
		return f, fmt.Errorf("%w: a request with a name of %d bytes", errHostile, size)
	}
	var name bytes.Buffer
	err = readSized(r, &name, int64(size))
	f.Name = name.String()
	return f, err
}

// appendChunk appends a part of a file: kind u8, zero [3], size u32, crc u32 of the data, data.
func appendChunk(dst []byte, kind uint8, data []byte) []byte {
	dst = append(dst, kind, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(data)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32c.Sum(data))
	return append(dst, data...)
}

func readChunk(r io.Reader, buf *bytes.Buffer) (kind uint8, err error) {
	var head [chunkHeaderBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	size := binary.LittleEndian.Uint32(head[4:])
	if head[0] == 0 || head[0] > chunkError || head[1]|head[2]|head[3] != 0 ||
		size > maxChunkBytes {
		return 0, fmt.Errorf("%w: a chunk of %d bytes", errHostile, size)
	}
	if err := readSized(r, buf, int64(size)); err != nil {
		return 0, err
	}
	if crc32c.Sum(buf.Bytes()) != binary.LittleEndian.Uint32(head[8:]) {
		return 0, fmt.Errorf("%w: the checksum of a chunk differs", errHostile)
	}
	return head[0], nil
}
