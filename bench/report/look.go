package report

import (
	"fmt"
	"image/color"
	"strings"
)

// look is how a system looks in every plot of a run.
type look struct {
	colour color.RGBA
	shape  shape // so that systems can be told apart without the colour, too
}

// own is pentad's green; nothing else is green.
func pentadGreen() color.RGBA { return rgb(0x0b6e4f) }

// palette holds the colours of the others, after Okabe and Ito and after Tol: apart for those who
// do not see all colours, dark enough for white paper.
func palette() []color.RGBA {
	return []color.RGBA{rgb(0x0072b2), rgb(0xe69f00), rgb(0xcc3311), rgb(0x56b4e9), rgb(0xaa4499),
		rgb(0x8c6d46), rgb(0x332288), rgb(0xcc79a7), rgb(0x7f7f7f), rgb(0xd55e00), rgb(0x882255),
		rgb(0xb8a11a), rgb(0x6f8fd8), rgb(0x222222)}
}

// looks gives every system of the run its look, in the order in which they come.
func (r *Run) looks() map[string]look {
	kin := []color.RGBA{rgb(0x4fae8b), rgb(0x8ccdb3)} // pentad reached by other ways
	out, kinds, peers := map[string]look{}, 0, 0
	for _, x := range r.Results {
		for _, s := range x.Systems {
			if _, ok := out[s.Name]; ok {
				continue
			}
			switch {
			case s.Name == "pentad":
				out[s.Name] = look{pentadGreen(), circle}
			case strings.HasPrefix(s.Name, "pentad-"):
				out[s.Name] = look{kin[kinds%len(kin)], circle}
				kinds++
			default:
				colours := palette()
				at := peers + peers/len(colours) // another shape for a colour that comes again
				out[s.Name] = look{colours[peers%len(colours)], shape(1 + at%int(shapes-1))}
				peers++
			}
		}
	}
	return out
}

func rgb(hex uint32) color.RGBA {
	return color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}
}

// hex writes a colour for a page.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// mix returns the colour between a and b; share is how much of b.
func mix(a, b color.RGBA, share float64) color.RGBA {
	part := func(a, b uint8) uint8 {
		return uint8(float64(a) + share*(float64(b)-float64(a)) + 0.5)
	}
	return color.RGBA{part(a.R, b.R), part(a.G, b.G), part(a.B, b.B), 0xff}
}

// shape is the form of a marker.
type shape uint8

const (
	circle shape = iota
	square
	diamond
	triangle
	wedge
	shapes // how many there are
)
