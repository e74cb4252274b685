package clickhouse

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

func block() []byte {
	var b record.Batch
	for i := range int64(3) {
		b.AppendStamped(record.Key{CID: -1, MID: 4e9 + i, MOID: 7, CapNs: i, AcqNs: -i},
			append(system.AppendNumber(nil, 0.5), 1, 2, 3, 4, 5, 6, 7, 8))
	}
	return appendBlock(nil, &b, system.Shape{PayloadBytes: system.StatusBytes})
}

func readAll(src []byte, take func(b *record.Batch)) error {
	r := reader{src: bufio.NewReader(bytes.NewReader(src)), status: true}
	for {
		_, err := r.next()
		if err == nil {
			err = r.handOut(take)
		}
		if err != nil {
			return err
		}
	}
}

func TestBlocks(t *testing.T) {
	once := block()
	rows := 0
	err := readAll(append(once, once...), func(b *record.Batch) {
		rows += b.Len()
		want := record.Key{CID: -1, MID: 4e9 + 2, MOID: 7, CapNs: 2, AcqNs: -2}
		if k := b.Key(2); k != want || b.Payload(2)[15] != 8 {
			t.Errorf("%+v, %x", k, b.Payload(2))
		}
	})
	if err != io.EOF || rows != 6 {
		t.Errorf("%d rows, %v", rows, err)
	}
	for size := 1; size < len(once); size++ {
		if err := readAll(once[:size], func(*record.Batch) {}); err == io.EOF {
			t.Errorf("no error after %d bytes", size)
		}
	}
}

func FuzzBlocks(f *testing.F) {
	f.Add(block())
	f.Add([]byte("Code: 241, e.displayText() = DB::Exception"))
	f.Fuzz(func(t *testing.T, src []byte) {
		_ = readAll(src, func(b *record.Batch) { // it must return
			if err := b.CheckShape(); err != nil {
				t.Error(err)
			}
		})
	})
}
