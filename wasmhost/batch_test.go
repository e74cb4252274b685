package wasmhost

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// probe is an aggregate that hands back what it was given: its state is the last batch header,
// its add copies the 128 bytes of the header into state 0.
func probe(need uint32) func(*asm) {
	return func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) {
			field(12, need)
			field(16, plugin.BatchHeaderSize)
			field(24, plugin.BatchHeaderSize)
		})
		a.replace(exportStateInit, "", nil)
		a.replace(exportAdd, "", cat(get(1), get(0), i32c(plugin.BatchHeaderSize),
			ops(opPrefixMisc, miscMemoryCopy, 0, 0), i32c(0)))
	}
}

// seen is what a guest finds in memory for one batch.
type seen struct {
	n, present, stride, groups, seq uint32
	cid, moid, mid, cap, acq, gid   []byte
	offsets, data, runs, series     []byte
}

// addProbe adds a batch and reads the columns that the header in state 0 points to.
func addProbe(t *testing.T, h *Host, need uint32, b *record.Batch, gid []uint32, groups int) seen {
	t.Helper()
	return probeWith(t, h, need, func(a *Aggregate) error {
		return a.Add(t.Context(), b, gid, groups)
	})
}

// probeWith is addProbe for rows that are added by a function.
func probeWith(t *testing.T, h *Host, need uint32, add func(a *Aggregate) error) seen {
	t.Helper()
	m := mustLoad(t, h, good(probe(need)))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := add(a); err != nil {
		t.Fatal(err)
	}
	states, err := a.States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u32 := func(field int) uint32 { return binary.LittleEndian.Uint32(states[field:]) }
	if u32(0) != plugin.BatchMagic || u32(8) != 0 {
		t.Errorf("magic %#x, flags %#x", u32(0), u32(8))
	}
	n := int(u32(4))
	column := func(field, size int) []byte {
		at := u32(field)
		if at == 0 {
			return nil
		}
		if at%regionAlign != 0 {
			t.Errorf("column of field %d lies at %d", field, at)
		}
		bytes, ok := a.guest.memory.Read(at, uint32(size)+64)
		if !ok {
			t.Fatalf("column of field %d and 64 bytes behind it are outside of memory", field)
		}
		return slices.Clone(bytes[:size])
	}
	return seen{
		n: u32(4), present: u32(12), stride: u32(52), groups: u32(56), seq: u32(68),
		cid: column(16, 4*n), moid: column(20, 4*n), mid: column(24, 8*n), cap: column(28, 8*n),
		acq: column(32, 8*n), gid: column(36, 4*n), offsets: column(40, 4*n+4),
		data: column(44, int(u32(48))), runs: column(64, 8*int(u32(60))),
		series: column(76, 24*int(u32(72))),
	}
}

func TestBatchColumns(t *testing.T) {
	h := newTestHost(t, Options{})
	b := &record.Batch{}
	for i := range int64(100) {
		b.AppendStamped(record.Key{CID: int32(i), MID: -i, MOID: int32(-i), CapNs: i << 40,
			AcqNs: 7 * i}, []byte{1, 2, byte(i)})
	}
	gid := make([]uint32, 100)
	for i := range gid {
		gid[i] = uint32(i % 3)
	}
	s := addProbe(t, h, needAll, b, gid, 3)
	if s.n != 100 || s.stride != 3 || s.groups != 3 || s.seq != 0 {
		t.Errorf("header %+v", s)
	}
	const short = plugin.NeedOffsets | plugin.NeedRuns | plugin.NeedSeries
	if want := uint32(needAll &^ short); s.present != want {
		t.Errorf("present %#x, want %#x", s.present, want)
	}
	equal := func(name string, got, want []byte) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %x, want %x", name, got, want)
		}
	}
	equal("cid", s.cid, bytesOf(b.CID))
	equal("moid", s.moid, bytesOf(b.MOID))
	equal("mid", s.mid, bytesOf(b.MID))
	equal("cap", s.cap, bytesOf(b.CapNs))
	equal("acq", s.acq, bytesOf(b.AcqNs))
	equal("gid", s.gid, bytesOf(gid))
	equal("data", s.data, b.Data)
	if s.offsets != nil || s.runs != nil {
		t.Error("offsets and runs are absent with a stride and short runs")
	}
	s = addProbe(t, h, plugin.NeedCID|plugin.NeedGID, b, nil, 1)
	if s.present != plugin.NeedCID|plugin.NeedGID || s.mid != nil || s.data != nil ||
		s.stride != 0 {
		t.Errorf("columns without a need: %+v", s)
	}
	equal("zero gid", s.gid, make([]byte, 400))
}

func TestBatchPayloads(t *testing.T) {
	h := newTestHost(t, Options{})
	ragged := &record.Batch{}
	for i := range 10 {
		ragged.Append(record.Key{}, make([]byte, i))
	}
	s := addProbe(t, h, plugin.NeedData|plugin.NeedRuns, ragged, nil, 1)
	if s.stride != 0 || !slices.Equal(s.offsets, bytesOf(ragged.Offsets)) || len(s.data) != 45 {
		t.Errorf("ragged: %+v", s)
	}
	if s.present != plugin.NeedData|plugin.NeedOffsets|plugin.NeedRuns {
		t.Errorf("ragged: present %#x", s.present)
	}
	empty := &record.Batch{}
	for range 3 {
		empty.Append(record.Key{}, nil)
	}
	s = addProbe(t, h, plugin.NeedData|plugin.NeedRuns, empty, nil, 1)
	if s.stride != 0 || !slices.Equal(s.offsets, make([]byte, 16)) || len(s.data) != 0 {
		t.Errorf("empty: %+v", s)
	}
	// Equal lengths behind offsets become a stride.
	equal := &record.Batch{CID: []int32{1, 2}, MID: []int64{1, 2}, MOID: []int32{1, 2},
		CapNs: []int64{1, 2}, Offsets: []uint32{0, 4, 8}, Data: []byte("abcdefgh")}
	s = addProbe(t, h, plugin.NeedData|plugin.NeedOffsets|plugin.NeedRuns, equal, nil, 1)
	if s.stride != 4 || s.offsets != nil || string(s.data) != "abcdefgh" {
		t.Errorf("equal: %+v", s)
	}
	s = addProbe(t, h, plugin.NeedOffsets|plugin.NeedRuns, ragged, nil, 1)
	if len(s.offsets) != 44 || s.data != nil {
		t.Errorf("offsets only: %+v", s)
	}
}

func TestBatchRuns(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(need uint32, gid []uint32, groups int, wantRuns ...uint32) {
		t.Helper()
		b := values(make([]int64, len(gid))...)
		s := addProbe(t, h, need, b, gid, groups)
		if !slices.Equal(s.runs, bytesOf(wantRuns)) {
			t.Errorf("%d groups of %v: runs % x, want %v", groups, gid, s.runs, wantRuns)
		}
		if (s.gid == nil) != (len(wantRuns) > 0) {
			t.Errorf("%d groups of %v: gid % x beside runs", groups, gid, s.gid)
		}
	}
	long := slices.Concat(slices.Repeat([]uint32{4}, 20), slices.Repeat([]uint32{1}, 12))
	f(plugin.NeedGID|plugin.NeedRuns, long, 5, 4, 20, 1, 32)
	f(plugin.NeedGID|plugin.NeedRuns, slices.Concat(long, []uint32{0}), 5, 4, 20, 1, 32, 0,
		33) // 3 runs of 11 rows
}

func TestRunsChoice(t *testing.T) {
	c := newColumns(&Descriptor{Need: plugin.NeedGID | plugin.NeedRuns})
	f := func(need uint32, gid []uint32, wantRuns ...uint32) {
		t.Helper()
		c.need = need
		x := batch{to: len(gid)}
		if err := c.group(&x, &rowGroups{gid: gid}, 10); err != nil {
			t.Fatal(err)
		}
		var runs []uint32
		for _, r := range x.runs {
			runs = append(runs, r.Group, r.End)
		}
		if !slices.Equal(runs, wantRuns) {
			t.Errorf("%v: runs %v, want %v", gid, runs, wantRuns)
		}
		if want := need&plugin.NeedGID != 0 && len(wantRuns) == 0; want != (x.gid != nil) {
			t.Errorf("%v: gid %v", gid, x.gid)
		}
	}
	both := uint32(plugin.NeedGID | plugin.NeedRuns)
	f(both, []uint32{3}, 3, 1)
	f(both, []uint32{3, 3, 3}, 3, 3)
	f(both, []uint32{3, 3, 2})
	f(both, slices.Repeat([]uint32{1}, 16), 1, 16)
	f(both, append(slices.Repeat([]uint32{1}, 15), 2), 1, 15, 2, 16)
	f(both, append(slices.Repeat([]uint32{1}, 14), 2))
	f(both, append(slices.Repeat([]uint32{1}, 14), 2, 3))
	f(plugin.NeedRuns, []uint32{1, 2, 2, 1}, 1, 1, 2, 3, 1, 4)
	f(plugin.NeedGID, []uint32{1, 1, 1})
	x := batch{to: 2}
	if err := c.group(&x, &rowGroups{gid: []uint32{1, 10}}, 10); err == nil {
		t.Error("a group beyond the number of groups is accepted")
	}
}

func TestCutIntoBatches(t *testing.T) {
	c := newColumns(&Descriptor{Need: plugin.NeedData})
	f := func(b *record.Batch, want ...int) {
		t.Helper()
		var got []int
		for row := 0; row < b.Len(); {
			x := c.cut(b, row)
			got = append(got, x.to-x.from)
			row = x.to
		}
		if !slices.Equal(got, want) {
			t.Errorf("cut into %v, want %v", got, want)
		}
	}
	sized := func(sizes ...int) *record.Batch {
		b := &record.Batch{}
		for _, n := range sizes {
			b.Append(record.Key{}, make([]byte, n))
		}
		return b
	}
	f(values(make([]int64, 2500)...), 1024, 1024, 452)
	c.rows = maxBatchRows
	f(values(make([]int64, 10_000)...), 4096, 4096, 1808)
	f(sized(100<<10, 100<<10, 100<<10), 2, 1)
	f(sized(1<<20, 1<<20), 1, 1)
	f(sized(1, 1<<20, 2, 3), 1, 1, 2)
	f(sized(maxBatchBytes, 0, 0, 1), 3, 1)
	f(sized(), []int{}...)
	c.rows = 300
	f(values(make([]int64, 700)...), 300, 300, 100)
}

func TestAdapt(t *testing.T) {
	c := newColumns(&Descriptor{})
	f := func(used uint64, want int) {
		t.Helper()
		c.adapt(&guest{used: used, scale: 1}, c.rows)
		if c.rows != want {
			t.Errorf("%d rows after %d units, want %d", c.rows, used, want)
		}
	}
	f(500_000, 1024)
	f(199_999, 2048)
	f(1000, 4096)
	f(1000, 4096)
	f(500_000, 4096)
	f(1_000_001, 2048)
	f(math.MaxInt64, 1024)
	f(math.MaxInt64, 512)
	f(math.MaxInt64, 256)
	f(math.MaxInt64, 256)
	f(500_000, 256)
	f(1000, 512)
	if c.adapt(&guest{used: 1000, scale: 1}, 511); c.rows != 512 {
		t.Errorf("%d rows after fewer than 512, want as many", c.rows)
	}
	c.rows = 4000
	f(1000, 4096)
	c = newColumns(&Descriptor{MaxBatch: 100})
	f(1000, 100)
	f(math.MaxInt64, 100)
}

func TestNeedsAcquisitionTimes(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(probe(plugin.NeedAcq|plugin.NeedRuns)))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &record.Batch{}
	b.Append(record.Key{}, nil)
	var e *Error
	if err := a.Add(t.Context(), b, nil, 1); !errors.As(err, &e) || e.Kind != Limit {
		t.Errorf("a batch without acquisition times: %v", err)
	}
}

func TestOrBits(t *testing.T) {
	r := random(3)
	for range 300 {
		n, at := r.IntN(200), r.IntN(200)
		src := make([]byte, (n+63)/64*8)
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		dst := make([]uint64, (at+n+63)/64)
		orBits(dst, at, src, n)
		for i := range len(dst) * 64 {
			want := i >= at && i < at+n && src[(i-at)/8]>>((i-at)%8)&1 != 0
			if got := dst[i/64]>>(i%64)&1 != 0; got != want {
				t.Fatalf("%d bits at %d: bit %d is %v", n, at, i, got)
			}
		}
	}
}
