package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// pace spreads bytes over time.
type pace struct {
	mu          sync.Mutex // guards everything below
	bytesPerSec int64
	next        time.Time // when what was let through so far is paid for
}

func (p *pace) set(bytesPerSec int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytesPerSec = bytesPerSec
}

// take returns how long to wait before bytes may be sent.
func (p *pace) take(bytes int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(int64(bytes) * int64(time.Second) / p.bytesPerSec))
	return wait
}

// serveFile sends one file of a snapshot.
func (t *transport) serveFile(conn net.Conn) {
	f, err := readRequest(conn)
	if err != nil {
		return
	}
	file, err := t.core.OpenSnapshot(f)
	var buf []byte
	send := func(kind uint8, data []byte) bool {
		buf = appendChunk(buf[:0], kind, data)
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := conn.Write(buf)
		return err == nil
	}
	finish := func(err error) {
		kind, text := uint8(chunkError), []byte(err.Error())
		if errors.Is(err, ErrSnapshotGone) {
			kind = chunkGone
		}
		send(kind, text[:min(len(text), maxNameBytes)])
	}
	if err != nil {
		finish(err)
		return
	}
	defer func() { _ = file.Close() }() // only read
	data := make([]byte, maxChunkBytes)
	for {
		n, err := io.ReadFull(file, data)
		if n > 0 && (!t.wait(t.pace.take(n, time.Now())) || !send(chunkData, data[:n])) {
			return
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			send(chunkEnd, nil)
			return
		case err != nil:
			finish(err)
			return
		}
	}
}

// Open is part of Network.
func (t *transport) Open(ctx context.Context, node uint64, f SnapshotFile) (io.ReadCloser, error) {
	if len(f.Name) > maxNameBytes {
		return nil, fmt.Errorf("fetch a file from node %016x: a name of %d bytes, at most %d", node,
			len(f.Name), maxNameBytes)
	}
	conn, err := t.dial(ctx, node, purposeFile)
	if err != nil {
		return nil, err
	}
	r := &remoteFile{t: t, conn: conn, node: node, name: f.Name,
		stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := conn.Write(appendRequest(nil, f)); err != nil {
		return nil, errors.Join(r.wrap(err), r.Close())
	}
	return r, nil
}

// remoteFile is a file that comes in chunks.
type remoteFile struct {
	t    *transport
	conn net.Conn
	node uint64
	name string
	stop func() bool
	buf  bytes.Buffer
	end  error
}

func (r *remoteFile) wrap(err error) error {
	return fmt.Errorf("fetch %s from node %016x: %w", r.name, r.node, err)
}

func (r *remoteFile) Read(p []byte) (int, error) {
	for r.buf.Len() == 0 && r.end == nil {
		// The other side may wait for its turn longer than for a write.
		_ = r.conn.SetReadDeadline(time.Now().Add(6 * writeTime))
		kind, err := readChunk(r.conn, &r.buf)
		switch {
		case err == io.EOF:
			r.end = r.wrap(io.ErrUnexpectedEOF)
		case err != nil:
			r.end = r.wrap(err)
		case kind == chunkEnd:
			r.end = io.EOF
		case kind == chunkGone:
			r.end = r.wrap(ErrSnapshotGone)
		case kind == chunkError:
			r.end = r.wrap(errors.New(r.buf.String()))
		}
		if r.end != nil {
			r.buf.Reset()
		}
	}
	if r.buf.Len() > 0 {
		return r.buf.Read(p)
	}
	return 0, r.end
}

func (r *remoteFile) Close() error {
	r.stop()
	r.t.forget(r.conn)
	return nil
}
