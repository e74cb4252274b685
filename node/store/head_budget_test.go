package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// counted returns rows whose payloads follow from their caps, which begin at one.
func counted(from, rows int) *record.Batch {
	b := new(record.Batch)
	for i := from; i < from+rows; i++ {
		b.Append(record.Key{MID: int64(i % 100), CapNs: int64(i)},
			binary.LittleEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15))
	}
	return b
}

// TestSealDuringScans holds scans open over seals of the heads that they read: these keep their
// rows, and only then others may have the memory.
func TestSealDuringScans(t *testing.T) {
	const rows = 20_000 // of a head with memory of its own
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 1, Workers: 1})
	total := 0
	fill := func() {
		mustPut(t, s, counted(total, rows), WriterSeq{})
		total += rows
	}
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		for range rounds.Of(3, 3, 1) {
			fill()
			seen, want := make([]bool, total), total
			head := s.shards[0].State.Load().Head
			inHead := 0
			_, err := s.Scan(t.Context(), &record.Query{View: view}, func(int) (Sink, error) {
				return func(b *record.Batch) error {
					for i := range b.Len() {
						cap := b.CapNs[i]
						if binary.LittleEndian.Uint64(b.Payload(i)) !=
							uint64(cap)*0x9e3779b97f4a7c15 || b.MID[i] != cap%100 || seen[cap] {
							return fmt.Errorf("reading %d of device %d is another, or came before",
								cap, b.MID[i])
						}
						seen[cap] = true
					}
					if inHead++; inHead == 1 { // it has given the first of several batches
						mustSeal(t, s)
						fill()
						mustSeal(t, s)
						fill()
					}
					return nil
				}, nil
			})
			if err != nil || inHead < 2 {
				t.Fatalf("%d batches, %v", inHead, err)
			}
			for cap, there := range seen[:want] {
				if !there {
					t.Fatalf("reading %d of %d is missing", cap, want)
				}
			}
			mustSeal(t, s)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("a head that was sealed, and that nobody scans, has its memory")
					}
				}()
				head.CountBelow(0)
			}()
		}
	}
}

// TestHeadBudget wants heads that were sealed to leave nothing of what was counted of them, also
// where scans, and not puts, have brought rows into cells, and where the rows came from a log.
func TestHeadBudget(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	opt := Options{Dir: t.TempDir(), Shards: 2}
	s := openTest(t, opt)
	below := int64(0)
	for round := range 3 {
		for range 20 {
			b := new(record.Batch)
			for range 100 {
				b.Append(record.Key{MID: int64(rng.Uint64() >> 1)}, make([]byte, 8))
			}
			below = mustPut(t, s, b, WriterSeq{}).FirstAcqNs
			if _, _, err := s.Count(t.Context(), &record.Query{}); err != nil {
				t.Fatal(err)
			}
		}
		b := new(record.Batch)
		b.AppendStamped(record.Key{MID: int64(round), AcqNs: below - 1000}, nil)
		if _, err := s.PutBackdated(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			s = reopen(t, s, opt)
		}
		mustSeal(t, s)
		if s.headBudget.Bytes() != 0 { // discard changes it meanwhile
			t.Fatalf("round %d: %d bytes of heads are left", round, s.headBudget.Bytes())
		}
	}
}
