package influxdb

import (
	"bytes"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// answer is that of SELECT val, mid FROM r.
const answer = "\x81\xa7results\x91\x82\xacstatement_id\x00\xa6series\x91\x83\xa4name\xa1r" +
	"\xa7columns\x93\xa4time\xa3val\xa3mid\xa6values\x91\x93\xd3\x17\xb8\xa7\xee\x35\x37\xaf\x00" +
	"\xcb\x40\x23\x33\x33\x33\x33\x33\x33\xaa4000000832"

func TestRead(t *testing.T) {
	var rows []record.Key
	r := reader{times: true, take: func(b *record.Batch) { rows = append(rows, b.Key(0)) }}
	if err := r.read(bytes.NewReader([]byte(answer))); err != nil {
		t.Fatal(err)
	}
	want := record.Key{MID: 4_000_000_832, CapNs: 0x17b8a7ee3537af00}
	if len(rows) != 1 || rows[0] != want {
		t.Errorf("%+v, want %+v", rows, want)
	}
	for size := range len(answer) - 1 {
		if err := r.read(bytes.NewReader([]byte(answer[:size+1]))); err == nil {
			t.Errorf("no error after %d bytes", size+1)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(answer))
	f.Add([]byte("\x81\xa5error\xa3bad"))
	f.Fuzz(func(t *testing.T, src []byte) {
		r := reader{status: true, take: func(b *record.Batch) {
			if err := b.CheckShape(); err != nil {
				t.Error(err)
			}
		}}
		_ = r.read(bytes.NewReader(src)) // it must return
	})
}
