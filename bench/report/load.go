package report

import (
	"cmp"
	"image/color"
	"slices"
)

const (
	loadName  = 92
	loadRow   = 24
	loadText  = 250 // what a put waits for
	weightRow = 17
)

// ingest returns how fast the systems took the load, grouped by what an acknowledgement is worth.
func (s sheet) ingest() []drawing {
	groups, most := s.classes()
	if most == 0 {
		return nil
	}
	const top = 70.0
	f := drawing{name: "ingest", title: "Ingest, million records per second", width: figureWidth}
	f.height = top + 12
	for _, systems := range groups {
		f.height += 26 + float64(len(systems))*loadRow
	}
	f.draw = func(p *painter) {
		end := s.title(p, f.title, s.heading()+". Beside each system: what a put waits for before "+
			"it is acknowledged. Only within a group is the promise the same.")
		s.ingestLegend(p, end+17)
		axis := lineScale(margin+loadName+8, figureWidth-margin-loadText-60, most)
		y := top
		for _, systems := range groups {
			class := s.Systems[systems[0]].DurabilityClass
			p.text(strong(9.5), spot{margin, y + 12}, cmp.Or(class, "unknown"))
			at := margin + p.width(strong(9.5), cmp.Or(class, "unknown")) + 8
			p.text(quiet(9), spot{at, y + 12}, about(class))
			p.line(rule(), 0.7, across(y+18, margin, figureWidth-margin))
			y += 22
			for _, i := range systems {
				s.ingestRow(p, i, axis, y)
				y += loadRow
			}
			y += 4
		}
	}
	return []drawing{f}
}

// classes groups the systems by durability, synced first, the fastest first in each; most is the
// greatest rate.
func (s sheet) classes() (groups [][]int, most float64) {
	var names []string
	by := map[string][]int{}
	for i, x := range s.Systems {
		most = max(most, x.Ingest, x.Settled)
		if by[x.DurabilityClass] == nil {
			names = append(names, x.DurabilityClass)
		}
		by[x.DurabilityClass] = append(by[x.DurabilityClass], i)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	for _, name := range names {
		slices.SortStableFunc(by[name], func(a, b int) int {
			return cmp.Compare(s.Systems[b].Ingest, s.Systems[a].Ingest)
		})
		groups = append(groups, by[name])
	}
	return groups, most
}

// rank orders classes by what they promise.
func rank(class string) int {
	switch class {
	case classSynced:
		return 0
	case classWritten:
		return 1
	case classBuffered:
		return 2
	}
	return 3
}

func (s sheet) ingestLegend(p *painter, y float64) {
	grey := rgb(0x5b6570)
	p.box(grey, margin+loadName+8, y-7, 16, 8)
	p.text(quiet(8.5), spot{margin + loadName + 29, y}, "acknowledged")
	p.box(faint(grey), margin+loadName+112, y-5.5, 16, 5)
	p.text(quiet(8.5), spot{margin + loadName + 133, y}, "until everything is ready for queries")
}

// faint is the colour of what is second in rank.
func faint(c color.RGBA) color.RGBA { return mix(white(), c, 0.45) }

func (s sheet) ingestRow(p *painter, i int, axis scale, y float64) {
	x, l := s.Systems[i], s.look(i)
	s.loadName(p, i, y, loadRow)
	bar := axis.at(x.Ingest) - axis.left
	p.box(l.colour, axis.left, y+3, max(0.7, bar), 10)
	p.box(faint(l.colour), axis.left, y+14, max(0.7, axis.at(x.Settled)-axis.left), 5)
	label := strong(8.5)
	p.text(label, spot{axis.at(x.Ingest) + 5, y + 11.5}, number(x.Ingest))
	p.text(quiet(7.5), spot{max(axis.at(x.Settled),
		axis.left) + 5, y + 20}, number(x.Settled))
	pen := quiet(8)
	lines := p.lines(pen, x.Durability, loadText, 2)
	for n, line := range lines {
		base := y + 15 + 9.5*float64(n) - 4.75*float64(len(lines)-1)
		p.text(pen, spot{figureWidth - margin - loadText, base}, line)
	}
}

// loadName writes a system's name left of its row; the first has a ground of its colour.
func (s sheet) loadName(p *painter, i int, y, high float64) {
	pen := plain(9)
	if i == 0 {
		p.box(mix(white(), s.look(0).colour, 0.1), margin-4, y, figureWidth-2*margin+8, high-1)
		pen = strong(9).in(s.look(0).colour)
	}
	pen = pen.right()
	p.text(pen, spot{margin + loadName, y + high/2 + 3},
		p.fit(pen, s.Systems[i].Name, loadName))
}

// weights returns what a record takes on disk.
func (s sheet) weights() []drawing {
	sizes := make([]float64, len(s.Systems))
	most := 0.0
	for i, x := range s.Systems {
		sizes[i], most = x.BytesPerRecord, max(most, x.BytesPerRecord)
	}
	if most == 0 {
		return nil
	}
	const top = 54.0
	f := drawing{name: "size", title: "Bytes on disk per record", width: figureWidth,
		height: top + weightRow*float64(len(s.Systems)) + 14}
	f.draw = func(p *painter) {
		s.title(p, f.title, s.heading()+". Indexes, copies and logs included. In brackets: how "+
			"many times as many as "+s.first()+".")
		axis := lineScale(margin+loadName+8, figureWidth-margin-90, most)
		for place, i := range order(sizes) {
			y := top + weightRow*float64(place)
			s.loadName(p, i, y, weightRow)
			if sizes[i] == 0 {
				p.text(quiet(8.5), spot{axis.left + 5, y + 11.5}, "not measured")
				continue
			}
			p.box(s.look(i).colour, axis.left, y+3, axis.at(sizes[i])-axis.left, weightRow-7)
			at := spot{axis.at(sizes[i]) + 5, y + 11.5}
			p.text(strong(8.5), at, weight(sizes[i]))
			if i > 0 && sizes[0] > 0 {
				at.x += p.width(strong(8.5), weight(sizes[i])) + 5
				p.text(quiet(8.5), at, "("+factor(sizes[i]/sizes[0])+")")
			}
		}
	}
	return []drawing{f}
}
