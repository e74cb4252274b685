package wal

import "testing"

func BenchmarkAppend(b *testing.B) {
	l, _, err := Open(b.TempDir(), Options{}, func(uint64, Entry) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	entries := []Entry{{Data: make([]byte, 400_000)}} // as many as 10,000 rows of sensors take
	b.SetBytes(int64(len(entries[0].Data)))
	for b.Loop() {
		if _, err := l.Append(entries); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}
