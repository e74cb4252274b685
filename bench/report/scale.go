package report

import (
	"fmt"
	"math"
)

// scale is an axis: values from and to lie at left and right.
type scale struct {
	from, to    float64
	left, right float64
	log         bool
}

// logScale makes an axis that holds all values that are above zero, with some room around them.
func logScale(left, right float64, values []float64) scale {
	s := scale{from: math.Inf(1), to: 0, left: left, right: right, log: true}
	for _, v := range values {
		if v > 0 {
			s.from, s.to = min(s.from, v), max(s.to, v)
		}
	}
	if s.to == 0 {
		s.from, s.to = 1, 1
	}
	// At least a factor of four, so that noise does not fill the plot.
	if s.to/s.from < 4 {
		middle := math.Sqrt(s.from * s.to)
		s.from, s.to = middle/2, middle*2
	}
	room := math.Pow(s.to/s.from, 0.04)
	s.from, s.to = s.from/room, s.to*room
	return s
}

// lineScale makes an axis from zero.
func lineScale(left, right, to float64) scale {
	if to <= 0 {
		to = 1
	}
	return scale{from: 0, to: to, left: left, right: right}
}

// at is the place of a value; what lies outside is put at the edge.
func (s scale) at(v float64) float64 {
	share := (v - s.from) / (s.to - s.from)
	if s.log {
		share = math.Log(v/s.from) / math.Log(s.to/s.from)
	}
	return s.left + min(1, max(0, share))*(s.right-s.left)
}

// ticks returns round values at least this many points apart.
func (s scale) ticks(apart float64) []float64 {
	if !s.log {
		return s.lineTicks(apart)
	}
	length := math.Abs(s.right - s.left)
	perDecade := length / math.Log10(s.to/s.from)
	steps := []float64{1}
	if perDecade*math.Log10(2) >= apart { // the distance between 1 and 2, and 5 and 10
		steps = []float64{1, 2, 5}
	}
	every := max(1, int(math.Ceil(apart/perDecade)))
	var out []float64
	for d := int(math.Floor(math.Log10(s.from))); d <= int(math.Ceil(math.Log10(s.to))); d++ {
		if d%every != 0 {
			continue
		}
		for _, step := range steps {
			if v := step * math.Pow10(d); v >= s.from && v <= s.to {
				out = append(out, v)
			}
		}
	}
	return out
}

func (s scale) lineTicks(apart float64) []float64 {
	most := max(1, math.Abs(s.right-s.left)/apart)
	step := math.Pow(10, math.Floor(math.Log10(s.to/most)))
	for _, times := range []float64{1, 2, 5, 10} {
		if s.to/(step*times) <= most {
			step *= times
			break
		}
	}
	var out []float64
	for i := 0; float64(i)*step <= s.to; i++ {
		out = append(out, float64(i)*step)
	}
	return out
}

// short writes a number of things in little room.
func short(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.4gG", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.4gM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.4gk", n/1e3)
	default:
		return fmt.Sprintf("%.4g", n)
	}
}

// factor writes a ratio in little room.
func factor(ratio float64) string {
	switch {
	case ratio >= 9950:
		return fmt.Sprintf("%.0fkx", ratio/1000)
	case ratio >= 9.95:
		return fmt.Sprintf("%.0fx", ratio)
	case ratio >= 0.995:
		return fmt.Sprintf("%.1fx", ratio)
	case ratio >= 0.0095:
		return fmt.Sprintf("%.2fx", ratio)
	default:
		return fmt.Sprintf("%.1gx", ratio)
	}
}
