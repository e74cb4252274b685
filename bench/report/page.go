package report

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"slices"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"

	_ "embed" // the page
)

//go:embed page.html
var page string

// view is what the page shows of a run.
type view struct {
	*Run
	Names    []chip
	Sections []section
}

// chip is a system and its colour.
type chip struct{ Name, Colour string }

// section is what the page shows of a result.
type section struct {
	Result
	ID          string
	Overview    []template.HTML
	Load        []template.HTML
	Asked       []template.HTML
	Classes     []string // of durability
	Blocks      [][]int  // of systems that share a table, each with the first
	Unsupported []string
}

// SaveHTML writes the run as one page that needs no network and no scripts.
func (r *Run) SaveHTML(path string) error {
	t, err := template.New("page").Funcs(template.FuncMap{"duration": Duration, "times": Times,
		"count": func(n any) string { return count(toFloat(n)) }, "number": number,
		"weight": weight, "class": about}).Parse(page)
	if err != nil {
		return fmt.Errorf("BUG: page: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, r.clean().view()); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func toFloat(n any) float64 {
	switch n := n.(type) {
	case int64:
		return float64(n)
	case int:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

func (r *Run) view() view {
	v := view{Run: r}
	looks, fonts := r.looks(), font.NewCache(liberation.Collection())
	for i, x := range r.Results {
		s := section{Result: x, ID: fmt.Sprintf("result-%d", i+1), Unsupported: x.unsupported(),
			Blocks: x.blocks()}
		figures := sheet{&r.Results[i], looks}
		s.Overview = inline(figures.overview(), fonts)
		s.Load, s.Asked = inline(figures.load(), fonts), inline(figures.asked(), fonts)
		for _, system := range x.Systems {
			if class := system.DurabilityClass; class != "" && !slices.Contains(s.Classes, class) {
				s.Classes = append(s.Classes, class)
			}
			c := chip{system.Name, hex(looks[system.Name].colour)}
			if !slices.Contains(v.Names, c) {
				v.Names = append(v.Names, c)
			}
		}
		v.Sections = append(v.Sections, s)
	}
	return v
}

// inline draws figures as elements of the page; they escape what they write.
func inline(figures []drawing, fonts *font.Cache) []template.HTML {
	var out []template.HTML
	for _, f := range figures {
		out = append(out, template.HTML(f.svg(fonts)))
	}
	return out
}

// blocks deals the systems into tables that fit a page.
func (r *Result) blocks() [][]int {
	if len(r.Systems) == 0 || len(r.Queries) == 0 {
		return nil
	}
	peers := len(r.Systems) - 1
	n := max(1, (peers+blockPeers-1)/blockPeers)
	var out [][]int
	for b := range n {
		block := []int{0}
		for s := b * peers / n; s < (b+1)*peers/n; s++ {
			block = append(block, 1+s)
		}
		out = append(out, block)
	}
	return out
}

// unsupported lists which systems do not answer which queries, and why.
func (r *Result) unsupported() []string {
	var out []string
	for _, q := range r.Queries {
		for s, t := range q.Times {
			if t.Unsupported != "" {
				out = append(out, fmt.Sprintf("%s, %s: %s", r.Systems[s].Name, q.Name,
					t.Unsupported))
			}
		}
	}
	return out
}
