package plugins_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// native is what a plugin does, as a loop in Go over the same columns.
type native struct {
	plugin string
	values map[string]string
	need   int // groups
	loop   func(b *record.Batch, gid []uint32, groups int)
}

func number(b *record.Batch, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(b.Data[8*i:]))
}

type ends struct {
	count                                uint64
	firstCap, firstAcq, lastCap, lastAcq int64
	first, last                          float64
}

func (s *ends) add(capNs, acqNs int64, x float64) {
	s.count++
	if capNs < s.firstCap || capNs == s.firstCap && acqNs < s.firstAcq {
		s.firstCap, s.firstAcq, s.first = capNs, acqNs, x
	}
	if capNs > s.lastCap || capNs == s.lastCap && acqNs > s.lastAcq {
		s.lastCap, s.lastAcq, s.last = capNs, acqNs, x
	}
}

func loopEnds(b *record.Batch, gid []uint32, groups int) {
	states := make([]ends, groups)
	for i, g := range gid {
		states[g].add(b.CapNs[i], b.AcqNs[i], number(b, i))
	}
}

type drawn struct {
	ends
	min, max       float64
	minCap, maxCap int64
	sum            [96]int64 // digits of 24 bits of an exact sum, all of them
}

func (s *drawn) add(x float64) {
	size := math.Float64bits(x)
	e, m := size>>52&2047, size&(1<<52-1)
	if e > 0 {
		m, e = m|1<<52, e-1
	}
	low, shift, sign := e/24, e%24, int64(size)>>63
	for k, d := range [4]uint64{m << shift, m << shift >> 24, m >> (48 - shift),
		m >> 24 >> (48 - shift)} {
		s.sum[int(low)+k] += int64(d&(1<<24-1))&^sign - int64(d&(1<<24-1))&sign
	}
}

func loopDownsample(b *record.Batch, gid []uint32, groups int) {
	states := make([]drawn, groups)
	for i, g := range gid {
		s, x := &states[g], number(b, i)
		if x != x {
			continue
		}
		s.ends.add(b.CapNs[i], b.AcqNs[i], x)
		if x < s.min {
			s.min, s.minCap = x, b.CapNs[i]
		}
		if x > s.max {
			s.max, s.maxCap = x, b.CapNs[i]
		}
		s.add(x)
	}
}

// loopSketch counts numbers by the first bits of their size, with room for all of them.
func loopSketch(b *record.Batch, gid []uint32, groups int) {
	type state struct {
		min, max float64
		bins     [2][4096]uint32
	}
	states := make([]state, groups)
	for i, g := range gid {
		s, x := &states[g], number(b, i)
		s.min, s.max = min(s.min, x), max(s.max, x)
		bits := math.Float64bits(x)
		s.bins[bits>>63][bits>>45&4095]++
	}
}

func loopDistinct(b *record.Batch, gid []uint32, groups int) {
	states := make([]hyperLogLog, groups)
	for i, g := range gid {
		states[g].see(hashPayload(b.Data[8*i : 8*i+8]))
	}
}

func loopGaps(b *record.Batch, gid []uint32, groups int) {
	states := make([][64]uint64, groups)
	every, window := int64(8192/len(states[0])/64), int64(8192)
	for i, g := range gid {
		if past := b.CapNs[i]; past >= 0 && past < window {
			slot := past / every
			states[g][slot>>6] |= 1 << (slot & 63)
		}
	}
}

func loopTop(b *record.Batch, gid []uint32, groups int) {
	states := make([][10]float64, groups)
	for i, g := range gid {
		s, x := &states[g], number(b, i)
		for at := 9; at >= 0 && x > s[at]; at-- {
			if at < 9 {
				s[at+1] = s[at]
			}
			s[at] = x
		}
	}
}

func loopHistogram(b *record.Batch, gid []uint32, groups int) {
	states := make([][12]uint64, groups)
	for i, g := range gid {
		k := 1
		if x := number(b, i); x < 0 {
			k = 0
		} else if x < 100 {
			k = 2 + min(int(x*0.1), 9)
		}
		states[g][k]++
	}
}

func loopStats(b *record.Batch, gid []uint32, groups int) {
	addNative(make([]statsModel, groups), b, gid)
}

func loopCount(_ *record.Batch, gid []uint32, groups int) {
	states := make([]uint64, groups)
	for _, g := range gid {
		states[g]++
	}
}

func loopFilter(b *record.Batch, _ []uint32, _ int) {
	keep := make([]uint64, (b.Len()+63)/64)
	for i := range b.Len() {
		if x := number(b, i); x >= 20 && x <= 60 {
			keep[i/64] |= 1 << (i % 64)
		}
	}
}

func loopReadable(b *record.Batch, _ []uint32, _ int) {
	keep := make([]uint64, (b.Len()+63)/64)
	for i := range b.Len() {
		if len(b.Payload(i)) >= 8 {
			keep[i/64] |= 1 << (i % 64)
		}
	}
}

// BenchmarkPlugins compares each plugin, columns and metering included, with a loop of the host in
// one run: x-native is how many times as long the plugin takes.
func BenchmarkPlugins(b *testing.B) {
	for _, n := range []native{
		{"between", map[string]string{"low": "20", "high": "60"}, 1, loopFilter},
		{"readable", nil, 1, loopReadable},
		{"threshold", map[string]string{"value": "60"}, 1, loopFilter},
		{"count", nil, 1000, loopCount},
		{"distinct", nil, 1, loopDistinct},
		{"downsample", nil, 100, loopDownsample},
		{"first-last", nil, 100, loopEnds},
		{"gaps", map[string]string{"every": "2", "unit": "ns", "slots": "4096"}, 100, loopGaps},
		{"histogram", map[string]string{"lo": "0", "hi": "100"}, 1, loopHistogram},
		{"outliers", nil, 1, loopSketch},
		{"quantiles", nil, 1, loopSketch},
		{"rate-of-change", nil, 100, loopEnds},
		{"stats", nil, 1, loopStats},
		{"top-k", nil, 1, loopTop},
	} {
		b.Run(n.plugin, func(b *testing.B) { n.run(b) })
	}
}

// stopwatch keeps the least time, in ns: others use the machine, too.
type stopwatch struct{ least float64 }

func (s *stopwatch) time(f func()) {
	start := time.Now()
	f()
	if took := float64(time.Since(start)); s.least == 0 || took < s.least {
		s.least = took
	}
}

func (n *native) run(b *testing.B) {
	m, doc := standard(b, n.plugin)
	batch, gid := &record.Batch{}, make([]uint32, 16*benchRows)
	for i := range gid {
		gid[i] = uint32(i / 64 % n.need)
		x := math.Float64bits(float64(i%1000) / 8)
		batch.AppendStamped(record.Key{MID: int64(i), CapNs: int64(i % 8192), AcqNs: int64(i)},
			binary.LittleEndian.AppendUint64(nil, x))
	}
	params := encode(b, doc, n.values)
	guest := func() error { return nil }
	if m.Describe().Kinds == plugin.KindFilter {
		f, err := m.NewFilter(b.Context(), params)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		keep := make([]uint64, len(gid)/64)
		guest = func() error { return f.Keep(b.Context(), batch, keep) }
	} else {
		a := newAggregate(b, m, params)
		guest = func() error { return a.Add(b.Context(), batch, gid, n.need) }
	}
	var inGuest, inLoop stopwatch
	for b.Loop() {
		inGuest.time(func() {
			if err := guest(); err != nil {
				b.Fatal(err)
			}
		})
		inLoop.time(func() { n.loop(batch, gid, n.need) })
	}
	rows := float64(len(gid))
	b.ReportMetric(inGuest.least/rows, "ns/row")
	b.ReportMetric(inLoop.least/rows, "native-ns/row")
	b.ReportMetric(inGuest.least/inLoop.least, "x-native")
}
