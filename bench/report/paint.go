package report

import (
	"image/color"
	"math"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// The greys of all plots.
func ink() color.RGBA   { return rgb(0x1b1f24) }
func soft() color.RGBA  { return rgb(0x57606a) }
func rule() color.RGBA  { return rgb(0xd5dae0) }
func pale() color.RGBA  { return rgb(0xeef1f4) }
func white() color.RGBA { return rgb(0xffffff) }

// pen is how text is written.
type pen struct {
	size   float64 // points
	bold   bool
	colour color.RGBA
	align  float64 // 0 when the text begins at its place, 1 when it ends there
}

func (p pen) right() pen                  { p.align = 1; return p }
func (p pen) centre() pen                 { p.align = 0.5; return p }
func (p pen) in(colour color.RGBA) pen    { p.colour = colour; return p }
func plain(size float64) pen              { return pen{size: size, colour: ink()} }
func quiet(size float64) pen              { return pen{size: size, colour: soft()} }
func strong(size float64) pen             { return pen{size: size, bold: true, colour: ink()} }
func (p pen) strongIf(condition bool) pen { p.bold = p.bold || condition; return p }

// spot is a place in points from the top left.
type spot struct{ x, y float64 }

// painter draws on a canvas. Lengths are in points, places from the top left.
type painter struct {
	canvas vg.Canvas
	fonts  *font.Cache
	height float64
	widths []float64 // of every text, in the order in which they were written
}

func (p *painter) point(at spot) vg.Point {
	// Hundredths, so that a page is not full of digits that no one sees.
	round := func(v float64) vg.Length { return vg.Length(math.Round(v*100) / 100) }
	return vg.Point{X: round(at.x), Y: round(p.height - at.y)}
}

func (p *painter) path(spots []spot) vg.Path {
	var path vg.Path
	for i, at := range spots {
		if i == 0 {
			path.Move(p.point(at))
		} else {
			path.Line(p.point(at))
		}
	}
	return path
}

// fill fills a polygon.
func (p *painter) fill(colour color.RGBA, spots ...spot) {
	path := p.path(spots)
	path.Close()
	p.canvas.SetColor(colour)
	p.canvas.Fill(path)
}

// box fills a rectangle.
func (p *painter) box(colour color.RGBA, x, y, w, h float64) {
	p.fill(colour, spot{x, y}, spot{x + w, y}, spot{x + w, y + h}, spot{x, y + h})
}

// line draws one or more lines of one kind.
func (p *painter) line(colour color.RGBA, width float64, lines ...[]spot) {
	var path vg.Path
	for _, spots := range lines {
		path = append(path, p.path(spots)...)
	}
	if len(path) == 0 {
		return
	}
	p.canvas.SetColor(colour)
	p.canvas.SetLineWidth(vg.Length(width))
	p.canvas.Stroke(path)
}

// across and down are lines along the axes.
func across(y, from, to float64) []spot { return []spot{{from, y}, {to, y}} }
func down(x, from, to float64) []spot   { return []spot{{x, from}, {x, to}} }

// mark draws a marker; hollow ones have a white middle.
func (p *painter) mark(l look, at spot, radius float64, hollow bool) {
	p.shape(l.colour, l.shape, at, radius)
	if hollow {
		p.shape(white(), l.shape, at, radius*0.55)
	}
}

func (p *painter) shape(colour color.RGBA, s shape, at spot, r float64) {
	x, y := at.x, at.y
	switch s {
	case square:
		p.box(colour, x-0.87*r, y-0.87*r, 1.74*r, 1.74*r)
	case diamond:
		p.fill(colour, spot{x, y - 1.2*r}, spot{x + 1.2*r, y}, spot{x, y + 1.2*r},
			spot{x - 1.2*r, y})
	case triangle:
		p.fill(colour, spot{x, y - 1.15*r}, spot{x + 1.1*r, y + 0.8*r},
			spot{x - 1.1*r, y + 0.8*r})
	case wedge:
		p.fill(colour, spot{x, y + 1.15*r}, spot{x + 1.1*r, y - 0.8*r},
			spot{x - 1.1*r, y - 0.8*r})
	default:
		var path vg.Path
		path.Move(p.point(spot{x + r, y}))
		path.Arc(p.point(at), vg.Length(r), 0, 2*math.Pi)
		path.Close()
		p.canvas.SetColor(colour)
		p.canvas.Fill(path)
	}
}

func (p *painter) face(pen pen) font.Face {
	f := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if pen.bold {
		f.Weight = stdfont.WeightBold
	}
	return p.fonts.Lookup(f, vg.Length(pen.size))
}

// width is how wide a text is.
func (p *painter) width(pen pen, text string) float64 {
	face := p.face(pen)
	return face.Width(text).Points()
}

// text writes one line whose letters stand on at.y.
func (p *painter) text(pen pen, at spot, text string) {
	if text == "" {
		return
	}
	width := p.width(pen, text)
	p.widths = append(p.widths, width)
	at.x -= pen.align * width
	p.canvas.SetColor(pen.colour)
	p.canvas.FillString(p.face(pen), p.point(at), text)
}

// slanted writes a line that rises at an angle, in radians.
func (p *painter) slanted(pen pen, at spot, angle float64, text string) {
	if text == "" {
		return
	}
	p.widths = append(p.widths, p.width(pen, text))
	p.canvas.Push()
	p.canvas.Translate(p.point(at))
	p.canvas.Rotate(angle)
	p.canvas.SetColor(pen.colour)
	p.canvas.FillString(p.face(pen), vg.Point{}, text)
	p.canvas.Pop()
}

// fit shortens a text to a width.
func (p *painter) fit(pen pen, text string, width float64) string {
	for n := len([]rune(text)); p.width(pen, text) > width && n > 1; n-- {
		text = cut(text, n-1)
	}
	return text
}

// lines breaks a text between words into at most this many lines of a width.
func (p *painter) lines(pen pen, text string, width float64, most int) []string {
	var out []string
	words := strings.Fields(text)
	for len(words) > 0 && len(out) < most {
		n := 1
		for n < len(words) && p.width(pen, strings.Join(words[:n+1], " ")) <= width {
			n++
		}
		if len(out) == most-1 {
			n = len(words)
		}
		out = append(out, p.fit(pen, strings.Join(words[:n], " "), width))
		words = words[n:]
	}
	return out
}
