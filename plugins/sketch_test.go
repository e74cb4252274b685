package plugins_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// sorted returns the numbers of readings but NaN, in order, with one zero.
func sorted(all []reading) []float64 {
	var out []float64
	for _, x := range all {
		if x.x == x.x {
			out = append(out, x.x+0)
		}
	}
	slices.Sort(out)
	return out
}

// sketchError is the error of the lowest level at which the bins of all numbers fit.
func sketchError(numbers []float64) float64 {
	for level := 0; ; level++ {
		bins := uint64(0)
		for _, sign := range []float64{1, -1} {
			low, high := uint64(math.MaxUint64), uint64(0)
			for _, x := range numbers {
				if x*sign < 0x1p-1022 || math.IsInf(x, 0) {
					continue
				}
				bin := math.Float64bits(x*sign) >> (45 + level)
				low, high = min(low, bin), max(high, bin)
			}
			if low <= high {
				bins += high - low + 1
			}
		}
		switch {
		case bins > 1024:
		case level > 7:
			return 1
		default:
			return 1 / (math.Exp2(float64(8-level)) + 1)
		}
	}
}

// within reports whether got is as near to want as the error says.
func within(got, want, off float64) bool {
	return got == want || math.Abs(got-want) <= off*math.Abs(want)*(1+1e-12) ||
		math.Abs(want) < 0x1p-1022 && got == 0
}

func rank(numbers []float64, q float64) float64 {
	return numbers[max(1, min(len(numbers), int(math.Ceil(q*float64(len(numbers))))))-1]
}

func TestQuantiles(t *testing.T) {
	shares := []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999}
	againstOracle(t, "quantiles", 120, func(r *rand.Rand, values map[string]string) oracle {
		q := []float64{0, 0.5, 1, r.Float64()}[r.IntN(4)]
		values["q"] = strconv.FormatFloat(q, 'g', -1, 64)
		return func(all []reading, result []byte) error {
			numbers := sorted(all)
			off := sketchError(numbers)
			if uintAt(result, 0) != uint64(len(numbers)) || floatAt(result, 2) != off ||
				uintAt(result, 1) != uint64(len(all)-len(numbers)) {
				return fmt.Errorf("%d numbers, %d not, error %v; want %d, error %v",
					uintAt(result, 0), uintAt(result, 1), floatAt(result, 2), len(numbers), off)
			}
			if len(numbers) == 0 {
				return equal(result[24:40], words(math.Inf(1), math.NaN()))
			}
			if floatAt(result, 3) != numbers[0] || floatAt(result, 14) != numbers[len(numbers)-1] {
				return fmt.Errorf("from %v to %v, want %v to %v", floatAt(result, 3),
					floatAt(result, 14), numbers[0], numbers[len(numbers)-1])
			}
			for i, share := range append(shares, 0, q) {
				if i == len(shares) {
					continue // max, see above
				}
				if got := floatAt(result, 4+i); !within(got, rank(numbers, share), off) {
					return fmt.Errorf("quantile %v is %v, want %v give or take %v of it", share,
						got, rank(numbers, share), off)
				}
			}
			return nil
		}
	})
}

func TestOutliers(t *testing.T) {
	againstOracle(t, "outliers", 120, func(r *rand.Rand, values map[string]string) oracle {
		k := []float64{0, 1.5, 3 * r.Float64()}[r.IntN(3)]
		values["k"] = strconv.FormatFloat(k, 'g', -1, 64)
		return func(all []reading, result []byte) error {
			return checkOutliers(sorted(all), k, result)
		}
	})
}

func checkOutliers(numbers []float64, k float64, result []byte) error {
	off := sketchError(numbers)
	if uintAt(result, 0) != uint64(len(numbers)) || floatAt(result, 2) != off {
		return fmt.Errorf("%d numbers, error %v, want %d, %v", uintAt(result, 0),
			floatAt(result, 2), len(numbers), off)
	}
	if len(numbers) == 0 {
		return nil
	}
	low, high := floatAt(result, 3), floatAt(result, 4)
	q1, q3 := rank(numbers, 0.25), rank(numbers, 0.75)
	if most := off*(math.Abs(q1)+math.Abs(q3))*(1+k)*(1+1e-9) + 0x1p-1020; most < math.Inf(1) {
		reach := k * (q3 - q1)
		// Of a fence beyond all numbers, what is found may still be one, within the error.
		far := func(got, want float64) bool {
			want = max(-math.MaxFloat64, min(want, math.MaxFloat64))
			return math.Abs(max(-math.MaxFloat64, min(got, math.MaxFloat64))-want) > most
		}
		if far(low, q1-reach) || far(high, q3+reach) {
			return fmt.Errorf("fences %v and %v, want %v and %v", low, high, q1-reach, q3+reach)
		}
	}
	// A number may be counted as anything that lies within the error around it.
	f := func(what string, got uint64, beyond func(x, off float64) bool) error {
		least, most := uint64(0), uint64(0)
		for _, x := range numbers {
			reach := off * math.Abs(x) * (1 + 1e-9)
			if math.IsInf(x, 0) || math.Abs(x) < 0x1p-1022 {
				x, reach = x*0x1p-60, 0
			}
			if beyond(x, -reach) {
				least++
			}
			if beyond(x, reach) {
				most++
			}
		}
		if got < least || got > most {
			return fmt.Errorf("%d numbers %s, want %d to %d", got, what, least, most)
		}
		return nil
	}
	return cmp.Or(f("below", uintAt(result, 5), func(x, off float64) bool { return x-off < low }),
		f("above", uintAt(result, 6), func(x, off float64) bool { return x+off > high }))
}

// Bins that are joined and do not fit into one end the query, whichever they are; those that fit do
// not.
func TestSketchFull(t *testing.T) {
	m, _ := standard(t, "quantiles")
	const bins, firstBin = 64, 76 // where the bins begin in a state
	add := func(a *wasmhost.Aggregate, numbers ...float64) error {
		b := &record.Batch{}
		for _, x := range numbers {
			b.Append(record.Key{}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
		return a.Add(t.Context(), b, nil, 1)
	}
	f := func(sign float64, odd, full int, alone bool) {
		t.Helper()
		a := newAggregate(t, m, nil)
		defer a.Close()
		for k := range bins {
			if err := add(a, sign*(1+float64(k+odd)/128)); err != nil {
				t.Fatal(err)
			}
		}
		state := statesOf(t, a)
		for k := range bins {
			at := firstBin + 4*k
			if sign < 0 {
				at = firstBin + 4*(1023-k)
			}
			switch joined := (k+odd)/4 == (full+odd)/4; {
			case k == full:
				binary.LittleEndian.PutUint32(state[at:], math.MaxUint32)
			case joined && alone:
				binary.LittleEndian.PutUint32(state[at:], 0)
			}
		}
		whole := newAggregate(t, m, nil)
		defer whole.Close()
		if err := whole.Merge(t.Context(), state, nil); err != nil {
			t.Fatal(err)
		}
		switch err := add(whole, sign*0x1p30); { // which takes joining bins by four
		case !alone:
			wantStatus(t, err, -100, "more than 4294967295 numbers in one bin")
		case err != nil:
			t.Errorf("sign %v, from bin %d, bin %d full: %v", sign, odd, full, err)
		}
	}
	for full := range bins {
		for _, sign := range []float64{1, -1} {
			f(sign, full%4, full, true)
			f(sign, full%4, full, false)
		}
	}
}

// mixed is the hash of the plugin distinct.
func mixed(v uint64) uint64 {
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

func hashPayload(p []byte) uint64 {
	h := mixed(uint64(len(p)) + 1)
	for ; len(p) >= 8; p = p[8:] {
		h = mixed(h^binary.LittleEndian.Uint64(p)) + 0x9e3779b97f4a7c15
	}
	var rest [8]byte
	copy(rest[:], p)
	return mixed(h ^ binary.LittleEndian.Uint64(rest[:]))
}

// hyperLogLog is the plugin distinct in Go.
type hyperLogLog [4096]uint8

func (s *hyperLogLog) see(hash uint64) {
	at := &s[hash>>52]
	*at = max(*at, uint8(bits.LeadingZeros64(hash<<12|1<<11)+1))
}

func (s *hyperLogLog) estimate() uint64 {
	var counts [54]float64
	for _, n := range s {
		counts[n]++
	}
	const m = 4096.0
	z := m * tau(1-counts[53]/m)
	for k := 52; k > 0; k-- {
		z = 0.5 * (z + counts[k])
	}
	z += m * sigma(counts[0]/m)
	half := 0.72134752044448170368
	return uint64(half*m*m/z + 0.5)
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := -1.0; z != before; {
		x *= x
		before = z
		z += float64(x * y)
		y += y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := -1.0; z != before; {
		x = math.Sqrt(x)
		before = z
		y *= 0.5
		z -= float64(float64((1-x)*(1-x)) * y)
	}
	return z / 3
}

func TestDistinct(t *testing.T) {
	againstOracle(t, "distinct", 90, func(r *rand.Rand, values map[string]string) oracle {
		of := []string{"payload", "number", "mid"}[r.IntN(3)]
		values["of"] = of
		return func(all []reading, result []byte) error {
			var s hyperLogLog
			for _, x := range all {
				number := math.Float64bits(x.x + 0)
				if x.x != x.x {
					number = 0x7ff8 << 48
				}
				s.see(map[string]uint64{"payload": hashPayload(x.payload),
					"number": mixed(number), "mid": mixed(uint64(x.key.MID) + 1)}[of])
			}
			return equal(result, words(s.estimate()))
		}
	})
}

// Estimates are off by 1.6 % on average; these ones, which are always the same, by at most 3 of
// that.
func TestDistinctError(t *testing.T) {
	m, doc := standard(t, "distinct")
	for of, prefix := range map[string]string{"payload": "meter ", "mid": ""} {
		a := newAggregate(t, m, encode(t, doc, map[string]string{"of": of}))
		n := int64(0)
		for _, until := range []int64{1, 10, 100, 1000, 10_000, 100_000, 300_000} {
			b := &record.Batch{}
			for ; n < until; n++ {
				b.Append(record.Key{MID: n}, []byte(prefix+strconv.FormatInt(n, 10)))
			}
			if err := a.Add(t.Context(), b, nil, 1); err != nil {
				t.Fatal(err)
			}
			whole := newAggregate(t, m, nil)
			if err := whole.Merge(t.Context(), statesOf(t, a), nil); err != nil {
				t.Fatal(err)
			}
			results, err := whole.Finish(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := float64(uintAt(results[0], 0))
			if off := math.Abs(got/float64(n) - 1); off > 3*0.01625 {
				t.Errorf("%d different of %s are %v, off by %v", n, of, got, off)
			}
		}
	}
}
