package tstorage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// storedBy reads what a client sent from the first byte on, and returns how many records may be
// stored together: each batch of at most that many bytes that came whole, each record of a larger
// one, in the PUTs before anything that is wrong. It knows the limits of the gateway that is fuzzed
// and nothing else of it.
func storedBy(src []byte, most int) (batches []int) {
	i32 := func(at int) int { return int(int32(binary.LittleEndian.Uint32(src[at:]))) }
	for len(src) >= 12 {
		cmd, size := i32(0), binary.LittleEndian.Uint64(src[4:])
		src = src[12:]
		switch {
		case (cmd == 1 || cmd == 7) && size == 64:
			if len(src) < 64 {
				return batches
			}
			src = src[64:]
			continue
		case cmd != 5 && cmd != 6 || size != 0:
			return batches
		}
		for refused := cmd == 6; ; {
			if len(src) < 4 {
				return batches
			}
			cid := i32(0)
			if cid == -1 {
				src = src[4:]
				break
			}
			if len(src) < 8 || i32(4) < 0 {
				return batches
			}
			size := i32(4)
			came := src[8:min(8+size, len(src))]
			n, ok := recordsIn(came, cid)
			if size > most && !refused && cid >= 0 {
				batches = append(batches, slices.Repeat([]int{1}, n)...)
			}
			if len(came) < size {
				return batches
			}
			if refused = refused || !ok || cid < 0; !refused && n > 0 && size <= most {
				batches = append(batches, n)
			}
			src = src[8+size:]
		}
	}
	return batches
}

// recordsIn counts the records of a batch that can be stored, up to one that is wrong; false when
// there is one.
func recordsIn(src []byte, cid int) (n int, ok bool) {
	for len(src) > 0 {
		if len(src) < 4 {
			return n, false
		}
		size := binary.LittleEndian.Uint32(src)
		if size < 20 || size > 20+32<<20 || int(size) > len(src)-4 {
			return n, false
		}
		mid, cap := binary.LittleEndian.Uint64(src[4:]), binary.LittleEndian.Uint64(src[16:])
		if cid != math.MaxInt32 && mid != math.MaxInt64 && cap != math.MaxInt64 &&
			binary.LittleEndian.Uint32(src[12:]) != math.MaxInt32 {
			n++
		}
		src = src[4+size:]
	}
	return n, true
}

// FuzzStream sends any bytes. Nothing panics, what is stored are the first so many whole batches,
// and memory stays in proportion to what was sent.
func FuzzStream(f *testing.F) {
	two := ttPut(false, at(1, 1, "a"), at(1, 2, "b"), at(2, 1, "c"))
	f.Add(two)
	f.Add(append(two, two...))
	f.Add(two[:40])
	stamped := at(1, 1, "a")
	stamped.acq = 900_000_000_000_000_000
	f.Add(append(ttPut(true, at(1, 1, "a")), ttPut(true, stamped, stamped)...))
	f.Add(append(ttBox(1, ttMin(), ttMax()), ttBox(7, ttMin(), ttMax())...))
	f.Add(append(append(two, ttBox(1, ttMin(), ttMax())...), two...))
	f.Add(le32(le32(le64(le32(nil, 5), 0), 1), math.MaxInt32))
	large := ttPut(false, slices.Repeat([]ttRecord{at(1, 1, strings.Repeat("x", 90))}, 5)...)
	f.Add(append(large, two...))
	f.Add(large[:400])
	large[12+8+3*114+1] = 1 // the size of the fourth record
	f.Add(append(large, two...))
	f.Add(le32(le32(le32(le64(le32(nil, 5), 0), 1), 1<<20), 20+1<<20))
	const most = 256
	f.Fuzz(func(t *testing.T, src []byte) {
		db := &fake{}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := feed(t, src, Options{Database: db, WholeBytes: most}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		for _, may := range []PutA{PutAAbove, PutAAny} {
			with := Options{Database: &fake{acq: 1000}, WholeBytes: most, PutA: may}
			if err := feed(t, src, with); err != nil {
				t.Fatalf("with PUTA: %v", err)
			}
		}
		if grown, limit := after.TotalAlloc-before.TotalAlloc,
			uint64(8<<20+64*len(src)); grown > limit {
			t.Errorf("%d bytes allocated for %d that were sent", grown, len(src))
		}
		whole := 0
		stored := db.count()
		for _, n := range storedBy(src, most) {
			if whole == stored {
				break
			}
			whole += n
		}
		if whole != stored {
			t.Errorf("%d records are stored, which are not the first of %v", stored,
				storedBy(src, most))
		}
	})
}

// feed sends bytes to a gateway, reads until it hangs up, and wants its goroutines to end.
func feed(t *testing.T, src []byte, opt Options) error {
	var text syncBuffer
	opt.Logger = slog.New(slog.NewTextHandler(&text, nil))
	s, err := Listen("127.0.0.1:0", opt)
	if err != nil {
		return err
	}
	raw, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(5 * time.Minute))
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, raw)
		read <- err
	}()
	if _, err := raw.Write(src); err == nil {
		_ = raw.(*net.TCPConn).CloseWrite()
	}
	if err := <-read; err != nil && !hungUp(err) {
		return fmt.Errorf("the server neither answered nor hung up: %w", err)
	}
	if err := s.Close(t.Context()); err != nil {
		return err
	}
	if strings.Contains(text.String(), "panic") {
		return errors.New(text.String())
	}
	if used := s.Stats().BufferBytes; used != 0 {
		return fmt.Errorf("%d bytes of the budget were never given back", used)
	}
	return nil
}
