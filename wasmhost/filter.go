package wasmhost

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
)

// Filter is one instance that decides which records are kept. One goroutine at a time.
type Filter struct {
	guest   *guest
	columns *columns
	filter  exportFunc
}

// PayloadPrefix returns how many leading bytes of payloads the plugin reads, 0 for all: Keep need
// not be given more of them.
func (f *Filter) PayloadPrefix() uint32 { return f.guest.payloadPrefix }

// Keep sets bit i of keep for each row i of b that the plugin keeps and clears the others; keep
// has at least (b.Len()+63)/64 words, of which it writes that many. After an error the filter is
// closed.
//
// Errors: *Error; the context's error, seen between calls of the guest; [ErrClosed].
func (f *Filter) Keep(ctx context.Context, b *record.Batch, keep []uint64) error {
	words := (b.Len() + 63) / 64
	if len(keep) < words {
		return fmt.Errorf("plugin filter: %d words for %d rows, want %d", len(keep), b.Len(), words)
	}
	if err := b.CheckShape(); err != nil {
		return fmt.Errorf("plugin filter: %w", err)
	}
	if err := f.guest.enter(ctx); err != nil {
		return err
	}
	return f.guest.leave(f.keep(ctx, b, keep[:words]))
}

func (f *Filter) keep(ctx context.Context, b *record.Batch, keep []uint64) error {
	clear(keep)
	for row := 0; row < b.Len(); {
		if err := f.guest.pause(ctx); err != nil {
			return err
		}
		x := f.columns.cut(b, row)
		bitmap, err := f.keepCut(b, &x)
		if err != nil {
			f.findFailingRecord(ctx, err, b, &x)
			return err
		}
		orBits(keep, row, bitmap, x.to-x.from)
		f.columns.adapt(f.guest, x.to-x.from)
		row = x.to
	}
	return nil
}

// keepCut calls the guest once and returns the bitmap, valid until the next call.
func (f *Filter) keepCut(b *record.Batch, x *batch) ([]byte, error) {
	bitmapBytes := (x.to - x.from + 63) / 64 * 8
	header, err := f.columns.write(f.guest, b, x, bitmapBytes)
	if err != nil {
		return nil, err
	}
	err = f.guest.checkZero(&f.filter, x.budget, uint64(header), uint64(x.bitmap))
	if err != nil {
		return nil, err
	}
	return f.guest.view(exportFilter, x.bitmap, uint32(bitmapBytes))
}

// orBits sets n bits of dst from bit at on; bits of src beyond n are ignored.
func orBits(dst []uint64, at int, src []byte, n int) {
	word, shift := at/64, uint(at%64)
	for i := 0; i < n; i += 64 {
		v := binary.LittleEndian.Uint64(src[i/8:])
		if left := n - i; left < 64 {
			v &= 1<<left - 1
		}
		dst[word] |= v << shift
		if spill := v >> (64 - shift); shift > 0 && spill != 0 {
			dst[word+1] |= spill
		}
		word++
	}
}

// Close frees the instance. It may be called twice.
func (f *Filter) Close() error { return f.guest.close() }
