package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	panelGap     = 26   // between the two columns of panels
	panelHead    = 24   // points above the rows
	panelFoot    = 26   // and below them
	panelRow     = 13.5 // per system
	panelName    = 82
	panelLabels  = 92 // right of the plot: two columns of numbers
	panelSecond  = 44 // of which the second has so much
	figurePanels = 6  // more would not fit a page
)

// panelWidth is the width of each of two panels beside one another.
const panelWidth = (figureWidth - 2*margin - panelGap) / 2

// panel is a small plot with a row per system.
type panel struct {
	name, about, right string
	times              []Time
	x, y               float64 // its top left
}

// panelFigures deals panels into figures that fit a page and draws each.
func (s sheet) panelFigures(
	name, title, about string, panels []panel, draw func(p *painter, x panel),
) []drawing {
	n := (len(panels) + figurePanels - 1) / figurePanels
	var out []drawing
	for i := range n {
		some := panels[i*figurePanels : min(len(panels), (i+1)*figurePanels)]
		f := drawing{name: name, title: title, width: figureWidth}
		if n > 1 {
			f.name = fmt.Sprintf("%s-%d", name, i+1)
			f.title = fmt.Sprintf("%s (%d of %d)", title, i+1, n)
		}
		const top = 66.0
		high := panelHead + panelRow*float64(len(s.Systems)) + panelFoot
		f.height = math.Ceil(top + high*float64((len(some)+1)/2))
		f.draw = func(p *painter) {
			s.title(p, f.title, about)
			for j, x := range some {
				x.x = margin + float64(j%2)*(panelWidth+panelGap)
				x.y = top + float64(j/2)*high
				s.panelTitle(p, x)
				draw(p, x)
			}
		}
		out = append(out, f)
	}
	return out
}

func (s sheet) panelTitle(p *painter, x panel) {
	base := x.y + 10
	p.text(quiet(8.5).right(), spot{x.x + panelWidth, base}, x.right)
	p.text(strong(10), spot{x.x, base}, x.name)
	at := x.x + p.width(strong(10), x.name) + 6
	room := x.x + panelWidth - p.width(quiet(8.5), x.right) - 10 - at
	p.text(plain(9), spot{at, base}, p.fit(plain(9), x.about, room))
}

// queryPanels makes a panel per query.
func (s sheet) queryPanels() []panel {
	var out []panel
	for _, q := range s.Queries {
		rows := count(q.Rows) + " rows"
		if q.Count {
			rows = "counts " + rows
		}
		out = append(out, panel{name: q.Name, about: q.About, right: rows, times: q.Times})
	}
	return out
}

// order lists the systems with the fastest first; those without a value come last.
func order(values []float64) []int {
	out := make([]int, len(values))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int {
		if (values[a] == 0) != (values[b] == 0) {
			return cmp.Compare(values[b], values[a])
		}
		return cmp.Compare(values[a], values[b])
	})
	return out
}

// plotEdges are the left and right of the part of a panel in which values are drawn.
func (x panel) plotEdges() (left, right float64) {
	return x.x + panelName + 6, x.x + panelWidth - panelLabels
}

// axis draws the lines and labels of a panel's axis.
// labels name the two columns of numbers beside it.
func (s sheet) axis(
	p *painter, x panel, axis scale, label func(float64) string, labels [2]string,
) {
	top := x.y + panelHead - 4
	bottom := x.y + panelHead + panelRow*float64(len(s.Systems)) + 1
	for _, v := range axis.ticks(34) {
		p.line(rule(), 0.5, down(axis.at(v), top, bottom))
		p.text(quiet(7.5).centre(), spot{axis.at(v), bottom + 9}, label(v))
	}
	end := x.x + panelWidth
	p.text(quiet(7.5).right(), spot{end - panelSecond, bottom + 9}, labels[0])
	p.text(quiet(7.5).right(), spot{end, bottom + 9}, labels[1])
}

// row draws the ground and the name of a system and returns the middle of its row.
func (s sheet) row(p *painter, x panel, place, system int) float64 {
	y := x.y + panelHead + panelRow*(float64(place)+0.5)
	l, pen := s.look(system), plain(8.5)
	if system == 0 {
		p.box(mix(white(), l.colour, 0.1), x.x-2, y-panelRow/2, panelWidth+4, panelRow)
		pen = strong(8.5).in(l.colour)
	}
	pen = pen.right()
	p.text(pen, spot{x.x + panelName, y + 3}, p.fit(pen, s.Systems[system].Name, panelName))
	return y
}

// ratios returns a panel per query with a bar per system, which begins at the first system's time.
func (s sheet) ratios() []drawing {
	if len(s.Systems) < 2 || len(s.Queries) == 0 {
		return nil
	}
	var all []float64
	for i := range s.Queries {
		for j := range s.Systems {
			ratio := s.Queries[i].ratio(j)
			all = append(all, ratio.Min, ratio.Median, ratio.Max)
		}
	}
	return s.panelFigures("ratios", "Each query: how many times as long as "+s.first(),
		s.heading()+". Bars begin at "+s.first()+"'s time: to the right takes longer, to the left "+
			"less. Thin lines: least and greatest ratio of pairs. Logarithmic, the same axis in "+
			"all panels.",
		s.queryPanels(), func(p *painter, x panel) {
			left, right := x.plotEdges()
			s.drawRatios(p, x, logScale(left, right, all))
		})
}

func (s sheet) drawRatios(p *painter, x panel, axis scale) {
	q := Query{Times: x.times}
	medians := make([]float64, len(s.Systems))
	for i := range s.Systems {
		medians[i] = q.ratio(i).Median
	}
	type drawn struct {
		system int
		y      float64
	}
	var rows []drawn
	for place, i := range order(medians) {
		rows = append(rows, drawn{i, s.row(p, x, place, i)})
	}
	s.axis(p, x, axis, factorTick, [2]string{"median", "ratio"})
	one := axis.at(1)
	end := x.x + panelWidth
	for _, row := range rows {
		ratio, y := q.ratio(row.system), row.y
		if ratio.Median == 0 {
			s.nothing(p, x, q.Times[row.system], y)
			continue
		}
		l := s.look(row.system)
		if row.system > 0 {
			p.box(l.colour, min(one, axis.at(ratio.Median)), y-3.6,
				math.Abs(axis.at(ratio.Median)-one), 7.2)
			p.line(white(), 2.2, across(y, axis.at(ratio.Min), axis.at(ratio.Max)))
			p.line(ink(), 0.8, whisker(y, axis.at(ratio.Min), axis.at(ratio.Max))...)
		}
		pen := plain(8.5).strongIf(row.system == 0).right()
		p.text(pen, spot{end - panelSecond, y + 3}, Duration(q.Times[row.system].MedianUs))
		p.text(pen, spot{end, y + 3}, factor(ratio.Median))
	}
	top := x.y + panelHead
	p.line(s.look(0).colour, 1.6, down(one, top-3, top+panelRow*float64(len(s.Systems))))
}

// factorTick writes a ratio at an axis.
func factorTick(v float64) string { return fmt.Sprintf("%gx", v) }

// whisker is a thin line with ends.
func whisker(y, from, to float64) [][]spot {
	return [][]spot{across(y, from, to), down(from, y-2, y+2), down(to, y-2, y+2)}
}

// nothing says that a system was not measured.
func (s sheet) nothing(p *painter, x panel, t Time, y float64) {
	text := "not measured"
	if t.Unsupported != "" {
		text = "cannot"
	}
	p.text(quiet(8).right(), spot{x.x + panelWidth, y + 3}, text)
}

// latencies returns a panel per query, and one of puts, with the spread of each system.
func (s sheet) latencies() []drawing {
	panels := s.queryPanels()
	puts := panel{name: "put", about: "of a batch"}
	measured := false
	for _, x := range s.Systems {
		puts.times = append(puts.times, x.Put)
		measured = measured || x.Put.measured()
	}
	if measured {
		panels = append(panels, puts)
	}
	if len(s.Systems) == 0 || len(panels) == 0 {
		return nil
	}
	return s.panelFigures("latencies", "How long answers take, and how much that varies",
		s.heading()+". Box: a quarter to nine tenths of the runs, with the median; "+
			"tick: 99 %; line: least to greatest. Logarithmic, an axis of its own in each panel.",
		panels, s.drawLatencies)
}

func (s sheet) drawLatencies(p *painter, x panel) {
	var all, medians []float64
	for _, t := range x.times {
		median := 0.0
		if t.measured() {
			all = append(all, t.MinUs, t.MedianUs, t.MaxUs)
			median = t.MedianUs
		}
		medians = append(medians, median)
	}
	left, right := x.plotEdges()
	axis := logScale(left, right, all)
	var rows []float64
	places := order(medians)
	for place, i := range places {
		rows = append(rows, s.row(p, x, place, i))
	}
	if len(all) > 0 {
		s.axis(p, x, axis, Duration, [2]string{"median", "99 %"})
	}
	for place, i := range places {
		y, t := rows[place], x.times[i]
		if medians[i] == 0 {
			s.nothing(p, x, t, y)
			continue
		}
		s.drawSpread(p, s.look(i), t, axis, y)
		pen := plain(8.5).strongIf(i == 0).right()
		p.text(pen, spot{x.x + panelWidth - panelSecond, y + 3}, Duration(t.MedianUs))
		p.text(quiet(8.5).right(), spot{x.x + panelWidth, y + 3}, Duration(t.P99Us))
	}
}

// drawSpread draws one system's times. What is not known is not drawn.
func (s sheet) drawSpread(p *painter, l look, t Time, axis scale, y float64) {
	low := t.MedianUs
	if n := len(t.SamplesUs); n > 0 {
		low = t.SamplesUs[int(0.25*float64(n-1)+0.5)]
	}
	high := max(t.P90Us, t.MedianUs)
	if t.MinUs > 0 && t.MaxUs > 0 {
		p.line(l.colour, 0.9, across(y, axis.at(t.MinUs), axis.at(t.MaxUs)))
	}
	p.box(mix(white(), l.colour, 0.55), axis.at(low), y-3.6, axis.at(high)-axis.at(low), 7.2)
	if t.P99Us > 0 {
		p.line(l.colour, 1, down(axis.at(t.P99Us), y-2.6, y+2.6))
	}
	p.box(mix(l.colour, ink(), 0.25), axis.at(t.MedianUs)-1, y-4.6, 2, 9.2)
}
