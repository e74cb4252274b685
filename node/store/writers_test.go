package store

import "testing"

// the writer's window is still known.
func TestAnswersOutliveReplay(t *testing.T) {
	id := [16]byte{7}
	table := newWriters()
	add := func(seq uint64) {
		table.record(WriterSeq{id, seq}, answer{seq: seq, first: int64(seq), records: 1})
	}
	add(37) // overtook 20, and its log file went
	for seq := uint64(20); seq <= 100; seq++ {
		add(seq)
	}
	dir := t.TempDir()
	if err := table.save(dir); err != nil {
		t.Fatal(err)
	}
	table = newWriters()
	if err := table.load(dir); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(20); seq <= 100; seq++ { // what is left of the log
		if seq != 37 {
			add(seq)
		}
	}
	for seq := uint64(37); seq <= 100; seq++ {
		known, _, err := table.admit(&putRequest{writer: WriterSeq{id, seq}})
		if err != nil || known == nil {
			t.Fatalf("batch %d would be stored again: %v", seq, err)
		}
	}
}
