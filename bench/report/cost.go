package report

import "slices"

const (
	costHigh = 150 // of a panel with its title
	costTop  = 74
	costLeft = 44 // for the labels of times
	costGap  = 14
)

// costPoint is a query of one system.
type costPoint struct {
	query   int
	at      spot // rows, us
	counted bool
}

// cost returns how times grow with the rows that come back: a small plot per peer, in which the
// first system and the peer stand out from all others.
func (s sheet) cost() []drawing {
	if len(s.Systems) == 0 || len(s.Queries) == 0 {
		return nil
	}
	points := make([][]costPoint, len(s.Systems))
	for i := range s.Systems {
		points[i] = s.costPoints(i)
	}
	panels, columns := s.costPanels()
	f := drawing{name: "cost", title: "What an answer costs, against its size", width: figureWidth,
		height: costTop + costHigh*float64((panels+columns-1)/columns) + 26}
	f.draw = func(p *painter) { s.drawCost(p, f, points) }
	return []drawing{f}
}

// costPanels returns how many panels there are, and how many beside one another.
func (s sheet) costPanels() (panels, columns int) {
	panels = max(1, len(s.Systems)-1)
	switch {
	case panels <= 4:
		return panels, max(2, panels)
	case panels <= 12:
		return panels, 4
	}
	return panels, 5
}

func (s sheet) costPoints(system int) []costPoint {
	var out []costPoint
	for i, q := range s.Queries {
		if t := q.Times[system]; t.measured() {
			out = append(out, costPoint{i, spot{max(1, q.Rows), t.MedianUs}, q.Count})
		}
	}
	return out
}

func (s sheet) drawCost(p *painter, f drawing, points [][]costPoint) {
	s.title(p, f.title, s.heading()+". Rows against median time, both logarithmic; the same axes "+
		"in all panels. Each point is a query: filled where rows are handed over, hollow where "+
		"they are counted. Lines lead from "+s.first()+" to the other; grey: all others.")
	var rows, times []float64
	for _, some := range points {
		for _, x := range some {
			rows, times = append(rows, x.at.x), append(times, x.at.y)
		}
	}
	peers, columns := s.costPanels()
	wide := (figureWidth-2*margin-costLeft+costGap)/float64(columns) - costGap
	for i := range peers {
		system := min(i+1, len(s.Systems)-1)
		left := margin + costLeft + float64(i%columns)*(wide+costGap)
		top := costTop + float64(i/columns)*costHigh
		x := logScale(left, left+wide, rows)
		y := logScale(top+costHigh-18, top+16, times)
		s.costAxes(p, x, y, i%columns == 0, i+columns >= peers)
		s.costPanel(p, x, y, points, system)
	}
	p.text(quiet(8.5).centre(), spot{figureWidth / 2, f.height - 8}, "rows of the answer")
}

// costAxes draws the grid, and labels at the left and below the lowest panels.
func (s sheet) costAxes(p *painter, x, y scale, labelTimes, labelRows bool) {
	p.box(rgb(0xf7f8fa), x.left, y.right, x.right-x.left, y.left-y.right)
	for _, v := range y.ticks(20) {
		p.line(rule(), 0.5, across(y.at(v), x.left, x.right))
		if labelTimes {
			p.text(quiet(7.5).right(), spot{x.left - 5, y.at(v) + 2.6}, Duration(v))
		}
	}
	for _, v := range x.ticks(28) {
		p.line(rule(), 0.5, down(x.at(v), y.right, y.left))
		if labelRows {
			p.text(quiet(7.5).centre(), spot{x.at(v), y.left + 10}, short(v))
		}
	}
}

func (s sheet) costPanel(p *painter, x, y scale, points [][]costPoint, system int) {
	l := s.look(system)
	p.mark(l, spot{x.left + 4, y.right - 7}, 3.2, false)
	name := strong(9)
	p.text(name, spot{x.left + 12, y.right - 4},
		p.fit(name, s.Systems[system].Name, x.right-x.left-12))
	var others, gaps [][]spot
	for i, some := range points {
		for _, point := range some {
			if at := x.at(point.at.x); i != 0 && i != system {
				others = append(others, across(y.at(point.at.y), at-2, at+2))
			}
		}
	}
	p.line(rgb(0xcdd3da), 0.8, others...)
	for _, point := range points[system] {
		for _, own := range points[0] {
			if own.query == point.query {
				gaps = append(gaps, down(x.at(point.at.x), y.at(point.at.y), y.at(own.at.y)))
			}
		}
	}
	p.line(faint(l.colour), 1, gaps...)
	for _, i := range slices.Compact([]int{system, 0}) {
		for _, point := range points[i] {
			p.mark(s.look(i), spot{x.at(point.at.x), y.at(point.at.y)}, 2.8, point.counted)
		}
	}
}
