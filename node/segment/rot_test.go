package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/record"
)

// handClock is a time that tests set.
type handClock struct{ at time.Time }

func (h *handClock) now() time.Time { return h.at }

// rotting is a segment in memory, all of whose blocks were just verified.
type rotting struct {
	*File
	hand    handClock
	whole   []byte // as it was written
	offsets []uint64
	sizes   []uint32
	rows    []string // what each block holds
}

func newRotting(t testing.TB, in *SealedInput) *rotting {
	t.Helper()
	r := &rotting{whole: sealBytes(t, in), hand: handClock{time.Unix(1e9, 0)}}
	s, err := parseSealed("1.seg", slices.Clone(r.whole))
	if err != nil {
		t.Fatal(err)
	}
	s.clock, r.File = NewVerifyClock(r.hand.now), s
	if r.offsets, r.sizes, err = s.Locate(); err != nil {
		t.Fatal(err)
	}
	for i := range r.offsets {
		var b Block
		text, err := r.read(i, &b)
		if err != nil || !s.RecentlyVerified(i) {
			t.Fatalf("block %d: %v, recent: %v", i, err, s.RecentlyVerified(i))
		}
		r.rows = append(r.rows, text)
	}
	return r
}

// read opens a block and shows all that it holds.
func (r *rotting) read(i int, b *Block) (string, error) {
	if err := r.Block(i, r.offsets[i], r.sizes[i], b); err != nil {
		return "", err
	}
	return showBlock(b)
}

func showBlock(b *Block) (string, error) {
	var dst record.Batch
	if err := b.GatherSpan(0, b.Rows(), false, &dst); err != nil {
		return "", err
	}
	text := fmt.Sprint(dst.CID, dst.MID, dst.MOID, dst.CapNs, dst.AcqNs, dst.Tombs)
	for i := range dst.Len() {
		text += fmt.Sprint(b.Flag(i), dst.Payload(i))
	}
	return text, nil
}

// flip turns bits of the file.
func (r *rotting) flip(rng *rand.Rand, bits int) {
	for range bits {
		r.data[rng.IntN(len(r.data))] ^= 1 << rng.IntN(8)
	}
}

// readAllWays reads a block in every way that a query does. What it finds may be wrong.
func (r *rotting) readAllWays(t *testing.T, rng *rand.Rand, b *Block) {
	for i := range r.offsets {
		err := r.Block(i, r.offsets[i], r.sizes[i], b)
		if err == nil {
			readBlock(t, b, new(record.Batch))
			spans := []Span{{0, 1}, {uint32(b.Rows() / 2), uint32(b.Rows())}}
			b.LikelyMIDs(0, b.Rows(), b.FindMIDs(1, rng.Int64(), 9), nil)
			b.PrefetchMIDs(spans)
			b.PrefetchRows(spans, AllColumns)
			b.FlaggedSpans(spans, nil)
			var loads PrefetchQueue
			loads.Set(b, spans, AllColumns)
			loads.Attach(b)
			if err = b.GatherColumns(nil, spans, AllColumns, new(record.Batch)); err == nil {
				err = b.GatherColumns([]uint32{0, uint32(b.Rows()) - 1}, nil,
					AllColumns.PayloadPrefix(8),
					new(record.Batch))
			}
			r.PrefetchFront(r.offsets[i])
			for d := range record.Dim(record.NumDims) {
				r.PrefetchColumn(r.offsets[i], d, spans)
			}
		}
		if err != nil && !errors.As(err, new(*durable.CorruptError)) {
			t.Fatalf("block %d: %v", i, err)
		}
	}
}

// Bits of a segment flip after its blocks were verified. Within [VerifyAfter] answers may be wrong,
// but nothing panics; after it, and for copies at once, rows are right or damage is reported.
func TestRot(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	found, within := 0, 0
	inputs := smallInputs(rng)
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		r := newRotting(t, inputs[name])
		for range 150 {
			copy(r.data, r.whole)
			r.hand.at = r.hand.at.Add(VerifyAfter)
			r.clock.Refresh()
			var b Block
			for i := range r.offsets {
				if text, err := r.read(i, &b); err != nil || text != r.rows[i] {
					t.Fatalf("%s: %v", name, err)
				}
			}
			r.flip(rng, 1+rng.IntN(3))
			r.hand.at = r.hand.at.Add(VerifyAfter - time.Second)
			r.clock.Refresh()
			r.readAllWays(t, rng, &b)
			for i := range r.offsets {
				if text, err := r.read(i, &b); err == nil && text != r.rows[i] {
					within++
				}
				err := r.BlockCopy(i, r.offsets[i], r.sizes[i], &b)
				found += r.rightOrDamaged(t, name, i, &b, err)
			}
			if !r.RecentlyVerified(0) { // BlockCopy has verified it, unless it is damaged
				continue
			}
			r.hand.at = r.hand.at.Add(VerifyAfter)
			r.clock.Refresh()
			for i := range r.offsets {
				err := r.Block(i, r.offsets[i], r.sizes[i], &b)
				found += r.rightOrDamaged(t, name, i, &b, err)
			}
		}
	}
	if found == 0 || within == 0 {
		t.Fatalf("%d damaged blocks, %d wrong answers before: no bit hit a block", found, within)
	}
}

// rightOrDamaged returns 1 for damage.
func (r *rotting) rightOrDamaged(t *testing.T, name string, i int, b *Block, err error) int {
	t.Helper()
	var text string
	if err == nil {
		text, err = showBlock(b)
	}
	switch {
	case errors.As(err, new(*durable.CorruptError)):
		return 1
	case err != nil || text != r.rows[i]:
		t.Fatalf("%s: block %d: %v, other rows", name, i, err)
	}
	return 0
}

// FuzzRot changes bytes of a block that was verified.
func FuzzRot(f *testing.F) {
	inputs := smallInputs(rand.New(rand.NewPCG(1, 1)))
	names := slices.Sorted(maps.Keys(inputs))
	for i := range names {
		f.Add(uint8(i), []byte{0, 20, 1, 0, 40, 255})
	}
	f.Fuzz(func(t *testing.T, kind uint8, changes []byte) {
		r := newRotting(t, inputs[names[int(kind)%len(names)]])
		for ; len(changes) >= 3; changes = changes[3:] {
			r.data[int(binary.LittleEndian.Uint16(changes))%len(r.data)] ^= changes[2]
		}
		var b Block
		r.readAllWays(t, rand.New(rand.NewPCG(1, 1)), &b)
	})
}

// The chunks of a copy are used as they were verified: bytes of the mapping that change after the
// checksum was computed do not matter.
func TestCopiedChunksAreVerifiedBytes(t *testing.T) {
	methods := map[uint8]bool{}
	for name, in := range smallInputs(randomSource(t)) {
		r := newRotting(t, in)
		var b Block
		for i := range r.offsets {
			copy(r.data, r.whole)
			if err := r.BlockCopy(i, r.offsets[i], r.sizes[i], &b); err != nil {
				t.Fatal(err)
			}
			for c := range len(b.chunks) / chunkEntryBytes {
				e, ok := b.entry(c)
				stored, right := b.verifyChunk(&e)
				if !ok || !right {
					t.Fatalf("%s: block %d: chunk %d", name, i, c)
				}
				for at := e.from; at < e.to; at++ {
					b.data[at] ^= 0x55
				}
				if checksum(stored) != e.sum {
					t.Errorf("%s: chunk %d of method %d aliases the mapping", name, c, e.method)
				}
				methods[e.method] = true
			}
		}
	}
	if len(methods) != 3 {
		t.Errorf("chunks of methods %v", methods)
	}
}

// A copy of a segment whose bits flipped since it was opened is right or not made, and the disk
// reader finds what is not right.
func TestRotIsNotCopied(t *testing.T) {
	rng := randomSource(t)
	refused := 0
	inputs := smallInputs(rng)
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		whole := sealBytes(t, inputs[name])
		dir := t.TempDir()
		path, to := filepath.Join(dir, "1.seg"), filepath.Join(dir, "2.seg")
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		clock := handClock{time.Unix(1e9, 0)}
		s, err := OpenSealed(path, NewVerifyClock(clock.now))
		if err != nil {
			t.Fatal(err)
		}
		want := copyOf(t, s, to)
		offsets, _, err := s.Locate()
		if err != nil {
			t.Fatal(err)
		}
		if err := verifyDisk(t, s, offsets); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			at := rng.IntN(len(whole))
			flipped := []byte{whole[at] ^ 1<<rng.IntN(8)}
			writeAt(t, path, int64(at), flipped)
			if err := verifyDisk(t, s, offsets); !errors.As(err, new(*durable.CorruptError)) {
				t.Fatalf("%s: byte %d flipped, and the disk is right: %v", name, at, err)
			}
			err := CopySealed(to, s, []byte("copy"), nil)
			var damage *durable.CorruptError
			switch {
			case errors.As(err, &damage):
				refused++
				if damage.File != path || damage.Offset > int64(at) {
					t.Fatalf("%s: byte %d flipped: %v", name, at, err)
				}
				if _, err := os.Stat(to + ".tmp"); !errors.Is(err, os.ErrNotExist) {
					t.Fatalf("a part of the copy is left: %v", err)
				}
			case err != nil:
				t.Fatal(err)
			default:
				if got, err := os.ReadFile(to); err != nil || string(got) != want {
					t.Fatalf("%s: byte %d flipped: a copy with other bytes, %v", name, at, err)
				}
			}
			writeAt(t, path, int64(at), whole[at:at+1])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("no copy was refused")
	}
}

func copyOf(t *testing.T, s *File, to string) string {
	t.Helper()
	if err := CopySealed(to, s, []byte("copy"), nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeAt(t *testing.T, path string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(data, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func verifyDisk(t *testing.T, s *File, offsets []uint64) error {
	t.Helper()
	d, err := s.OpenDisk(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for i, at := range offsets {
		if _, err := d.Block(i, at); err != nil {
			return err
		}
	}
	return d.Rest()
}

// A file that is cut while it is open is damage to the disk reader.
func TestDiskCut(t *testing.T) {
	s := mustSeal(t, randomInput(randomSource(t), 5000))
	offsets, _, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.Path(), s.Size()/2); err != nil {
		t.Fatal(err)
	}
	if err := verifyDisk(t, s, offsets); err == nil || !strings.Contains(err.Error(), "cut") {
		t.Fatal(err)
	}
}

// BenchmarkVerifyBlock opens blocks of 8,192 rows: known to be right, verified, and copied.
func BenchmarkVerifyBlock(b *testing.B) {
	in := sensors(8192 * 8)
	in.BlockEnds = in.BlockEnds[:0]
	for end := uint32(8192); end <= 8192*8; end += 8192 {
		in.BlockEnds = append(in.BlockEnds, end)
	}
	s := mustSeal(b, in)
	s.clock = NewVerifyClock(time.Now)
	offsets, sizes, err := s.Locate()
	if err != nil {
		b.Fatal(err)
	}
	var blk Block
	run := func(name string, open func(int, uint64, uint32, *Block) error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(sizes[0]))
			i := 0
			for b.Loop() {
				if err := open(i&7, offsets[i&7], sizes[i&7], &blk); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
	run("known", s.Block)
	run("verified", func(i int, offset uint64, size uint32, _ *Block) error {
		return s.VerifyBlock(i, offset, size)
	})
	run("copied", s.BlockCopy)
}
