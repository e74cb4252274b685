package report

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	figureWidth = 760 // points, of all figures: letters are of one size throughout a page
	margin      = 12
	dotsPerInch = 144
)

// drawing is a plot that can be drawn on any canvas.
type drawing struct {
	name          string // of the file, without extension
	title         string
	width, height float64 // points
	draw          func(p *painter)
}

// sheet draws the plots of a result.
type sheet struct {
	*Result
	looks map[string]look
}

// look is how system i looks.
func (s sheet) look(i int) look { return s.looks[s.Systems[i].Name] }

// first names what the others are compared with.
func (s sheet) first() string { return s.Systems[0].Name }

// SavePlots writes every plot of every result as a PNG file and returns their paths.
func (r *Run) SavePlots(dir string) ([]string, error) { return r.savePlots(dir, dotsPerInch) }

func (r *Run) savePlots(dir string, dpi int) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	run, fonts := r.clean(), font.NewCache(liberation.Collection())
	looks := run.looks()
	var out []string
	for i := range run.Results {
		s := sheet{&run.Results[i], looks}
		prefix := fileName(s.Title())
		if len(run.Results) > 1 {
			prefix = fmt.Sprintf("%d-%s", i+1, prefix)
		}
		figures := append(s.overview(), append(s.load(), s.asked()...)...)
		for _, f := range figures {
			path := filepath.Join(dir, prefix+"-"+f.name+".png")
			if err := os.WriteFile(path, f.png(fonts, dpi), 0o644); err != nil {
				return nil, err
			}
			out = append(out, path)
		}
	}
	return out, nil
}

// load returns the plots of how the systems took the load.
func (s sheet) load() []drawing { return append(s.ingest(), s.weights()...) }

// asked returns the plots of how they answered.
func (s sheet) asked() []drawing {
	return append(s.ratios(), append(s.latencies(), s.cost()...)...)
}

// fileName makes a file's name of a title.
func fileName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	if len(words) == 0 {
		return "result"
	}
	return strings.Join(words, "-")
}

func (f drawing) png(fonts *font.Cache, dpi int) []byte {
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(
		vgimg.UseWH(vg.Length(f.width), vg.Length(f.height)), vgimg.UseDPI(dpi))}
	f.draw(&painter{canvas: c, fonts: fonts, height: f.height})
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		panic("BUG: a picture in memory: " + err.Error())
	}
	return out.Bytes()
}

// svg returns the figure as an element of a page.
//
// The letters come from the reader's machine: Arial and Helvetica are as wide as the font that the
// figure was laid out with, and every other font is made so by textLength.
func (f drawing) svg(fonts *font.Cache) string {
	c := vgsvg.New(vg.Length(f.width), vg.Length(f.height))
	p := &painter{canvas: c, fonts: fonts, height: f.height}
	f.draw(p)
	var canvas bytes.Buffer
	if _, err := c.WriteTo(&canvas); err != nil {
		panic("BUG: a picture in memory: " + err.Error())
	}
	// The canvas begins with a document's header, whose name spaces a page does not need, and says
	// the font and its defaults with every word.
	_, text, _ := strings.Cut(canvas.String(), "<g transform")
	const face = "font-family:Liberation Sans;font-variant:normal;font-weight:"
	text = strings.NewReplacer("\n\t", " ", "\n", "", face+"normal;font-style:normal;", "",
		face+"bold;font-style:normal;", "font-weight:bold;", "scale(1, -1)", "scale(1,-1)",
		";fill:"+strings.ToUpper(hex(ink()))+`"`, `"`, " />", "/>").Replace(text)
	text = regexp.MustCompile(`style="fill:(#\w{6})"`).ReplaceAllString(text, `fill="$1"`)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s" font-family="`+
		`Liberation Sans, Arimo, Arial, Helvetica, sans-serif" fill="%s"><g transform`,
		f.width, f.height, html.EscapeString(f.title), hex(ink()))
	for i, part := range strings.Split(text, "<text ") {
		if i > 0 {
			fmt.Fprintf(&out, `<text textLength="%.1f" `, p.widths[i-1])
		}
		out.WriteString(part)
	}
	return out.String()
}

// title writes the head of a figure and returns where it ends.
func (s sheet) title(p *painter, title, about string) float64 {
	p.text(strong(14), spot{margin, 22}, p.fit(strong(14), title, figureWidth-2*margin))
	y := 26.0
	for _, line := range p.lines(quiet(9), about, figureWidth-2*margin, 3) {
		y += 12
		p.text(quiet(9), spot{margin, y}, line)
	}
	return y
}
