package report

import (
	"fmt"
	"image/color"
	"math"
)

const (
	overviewLabel = 196 // points for the names of queries
	overviewFirst = 62  // and for the first system's times
	overviewRow   = 23
	overviewSlant = 0.95 // radians by which the names of systems rise
	// saturated is the ratio from which the colour no longer changes.
	saturated = 1000
)

// cell is one field of the overview.
type cell struct {
	text  string
	ratio float64 // zero leaves it without colour
}

// overviewLine is a row: what was measured, the first system's value and the others' ratios.
type overviewLine struct {
	name, about string
	cells       []cell
}

// overview returns the table that a reader sees first: how many times as long as the first system
// each other takes, as colours.
func (s sheet) overview() []drawing {
	if len(s.Systems) == 0 {
		return nil
	}
	load, asked := s.loadLines(), s.queryLines()
	rows := append(load, asked...)
	if len(rows) == 0 {
		return nil
	}
	f := drawing{name: "overview", title: "How many times as long as " + s.first(),
		width: figureWidth}
	f.height = s.overviewTop() + float64(len(rows))*overviewRow + 8 + 14
	if len(s.Systems) == 1 {
		f.title = s.first() + " at a glance"
	} else {
		f.height += 46
	}
	f.draw = func(p *painter) { s.drawOverview(p, f, rows, len(load)) }
	return []drawing{f}
}

// overviewTop is where the rows begin: below the names of the systems, which rise.
func (s sheet) overviewTop() float64 { return 124 }

func (s sheet) loadLines() []overviewLine {
	var out []overviewLine
	line := func(name, about string, value func(x System) float64, write func(float64) string,
		ratio func(first, x System) cell) {
		row, any := overviewLine{name: name, about: about}, false
		for i, x := range s.Systems {
			any = any || value(x) > 0
			if i == 0 {
				row.cells = append(row.cells, cell{text: dash(write(value(x)))})
				continue
			}
			row.cells = append(row.cells, ratio(s.Systems[0], x))
		}
		if any {
			out = append(out, row)
		}
	}
	rate := func(value func(x System) float64) func(first, x System) cell {
		return func(first, x System) cell {
			c := ratioCell(value(first), value(x))
			if c.ratio > 0 {
				c.text += mark(x.DurabilityClass)
			}
			return c
		}
	}
	acknowledged := func(x System) float64 { return x.Ingest }
	ready := func(x System) float64 { return x.Settled }
	size := func(x System) float64 { return x.BytesPerRecord }
	line("ingest", "M records/s acknowledged", acknowledged, number, rate(acknowledged))
	line("ready", "M records/s until all can be queried", ready, number, rate(ready))
	line("size", "bytes per record", size, weight,
		func(first, x System) cell { return ratioCell(size(x), size(first)) })
	return out
}

// dash makes a hyphen that stands for nothing as wide as the others.
func dash(text string) string {
	if text == "-" {
		return "–"
	}
	return text
}

func ratioCell(over, under float64) cell {
	if over <= 0 || under <= 0 {
		return cell{text: "–"}
	}
	return cell{factor(over / under), over / under}
}

func (s sheet) queryLines() []overviewLine {
	var out []overviewLine
	for i := range s.Queries {
		q := &s.Queries[i]
		row := overviewLine{name: q.Name, about: q.About}
		for j, t := range q.Times {
			c := cell{text: "–"}
			if ratio := q.ratio(j).Median; j == 0 && t.measured() {
				c.text = Duration(t.MedianUs)
			} else if j > 0 && ratio > 0 {
				c = cell{factor(ratio), ratio}
			}
			row.cells = append(row.cells, c)
		}
		out = append(out, row)
	}
	return out
}

// ratio is how many times as long a system takes as the first, by pairs if there were pairs.
func (q *Query) ratio(system int) Ratio {
	t, first := q.Times[system], q.Times[0]
	switch {
	case !t.measured():
		return Ratio{}
	case t.Ratio.Median > 0:
		return t.Ratio
	case system == 0:
		return Ratio{1, 1, 1}
	case first.measured():
		ratio := t.MedianUs / first.MedianUs
		return Ratio{ratio, ratio, ratio}
	}
	return Ratio{}
}

func (s sheet) drawOverview(p *painter, f drawing, rows []overviewLine, load int) {
	text := s.heading() + "."
	if len(s.Systems) > 1 {
		text += " Of queries the median of the ratios of pairs of runs; the first column has " +
			s.first() + "'s own values."
	}
	s.title(p, f.title, text)
	top := s.overviewTop()
	left := float64(margin + overviewLabel)
	peers := len(s.Systems) - 1
	overhang := 48.0 // of the last name
	wide := min(56, (figureWidth-left-overviewFirst-overhang)/float64(max(1, peers)))
	column := func(i int) float64 {
		if i == 0 {
			return left
		}
		return left + overviewFirst + float64(i-1)*wide
	}
	for i, x := range s.Systems {
		at := column(i) + wide/2
		pen := plain(8.5)
		if i == 0 {
			at, pen = left+overviewFirst/2, strong(9.5).in(s.look(0).colour)
		}
		p.mark(s.look(i), spot{at, top - 7}, 3.2, false)
		p.slanted(pen, spot{at + 3, top - 13}, overviewSlant, p.fit(pen, x.Name, 84))
	}
	y := top
	for i, row := range rows {
		if i == load && i > 0 {
			y += 8 // the queries stand apart from the load
		}
		s.overviewName(p, row, y, left)
		for j, c := range row.cells {
			s.drawCell(p, c, j, column(j), y, wide)
		}
		y += overviewRow
	}
	if peers > 0 {
		s.overviewLegend(p, f.height-34)
	}
}

// overviewName writes what a row is about, in two lines if it must.
func (s sheet) overviewName(p *painter, row overviewLine, y, right float64) {
	name, about := strong(9), quiet(8.5)
	base := y + overviewRow/2 + 3
	p.text(name, spot{margin, base}, p.fit(name, row.name, 70))
	at := margin + max(38, min(70, p.width(name, row.name))+6)
	lines := p.lines(about, row.about, right-at-6, 1)
	if len(lines) == 1 && lines[0] != row.about {
		about = quiet(7.5)
		lines = p.lines(about, row.about, right-at-6, 2)
	}
	for i, line := range lines {
		p.text(about, spot{at, base + 9*float64(i) - 4.5*float64(len(lines)-1)}, line)
	}
}

func (s sheet) drawCell(p *painter, c cell, system int, x, y, wide float64) {
	const gap = 1
	base := y + overviewRow/2 + 3
	if system == 0 {
		p.box(mix(white(), s.look(0).colour, 0.1), x, y, overviewFirst-4, overviewRow-gap)
		p.text(strong(8.5).in(s.look(0).colour).centre(), spot{x + overviewFirst/2 - 2, base},
			c.text)
		return
	}
	if c.ratio == 0 {
		p.box(pale(), x, y, wide-gap, overviewRow-gap)
		p.text(quiet(8.5).centre(), spot{x + wide/2, base}, c.text)
		return
	}
	ground := heat(c.ratio)
	p.box(ground, x, y, wide-gap, overviewRow-gap)
	pen := plain(8.5).centre()
	for pen.size > 5 && p.width(pen, c.text) > wide-2*gap {
		pen.size -= 0.5 // many systems
	}
	if dark(ground) {
		pen = pen.in(white())
	}
	p.text(pen, spot{x + (wide-gap)/2, base}, c.text)
}

// heat is the colour of a ratio: green where the first system is faster, brown where it is slower.
// Green and brown are apart for those who do not tell red from green.
func heat(ratio float64) color.RGBA {
	share := min(1, max(-1, math.Log(ratio)/math.Log(saturated)))
	if share >= 0 {
		return mix(white(), pentadGreen(), share)
	}
	return mix(white(), rgb(0x8c510a), -share)
}

// dark reports whether white letters are easier to read on a colour than black ones.
func dark(c color.RGBA) bool {
	return 0.299*float64(c.R)+0.587*float64(c.G)+0.114*float64(c.B) < 122
}

func (s sheet) overviewLegend(p *painter, y float64) {
	const width, steps = 220.0, 44
	left := float64(margin + overviewLabel)
	for i := range steps {
		share := (float64(i)+0.5)/steps*2 - 1
		p.box(heat(math.Pow(saturated, share)), left+float64(i)*width/steps, y, width/steps+0.3, 8)
	}
	for _, ratio := range []float64{0.001, 0.01, 0.1, 1, 10, 100, 1000} {
		at := left + width*(math.Log(ratio)/math.Log(saturated)+1)/2
		p.text(quiet(8).centre(), spot{at, y + 18}, fmt.Sprintf("%gx", ratio))
	}
	p.text(quiet(8.5).right(), spot{left - 14, y + 8}, s.first()+" is slower")
	p.text(quiet(8.5), spot{left + width + 14, y + 8}, s.first()+" is faster")
	note := "–  no answer"
	for _, x := range s.Systems {
		if mark(x.DurabilityClass) != "" {
			note = "*  acknowledged before the disk has it;   " + note
			break
		}
	}
	p.text(quiet(8.5).right(), spot{figureWidth - margin, y + 8}, note)
}
