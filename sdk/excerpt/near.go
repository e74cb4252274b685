package excerpt

import (
	"slices"
	"strings"
)

// DidYouMean returns a question that names up to three of some names which differ from a text in
// few characters, or begin with it: "; did you mean a or b?". It is empty when none is near.
func DidYouMean(text string, names []string) string {
	const most, maxBytes = 3, 64
	if text == "" || len(text) > maxBytes {
		return ""
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, name := range names {
		switch d := distance(strings.ToLower(text), strings.ToLower(name)); {
		case len(name) > maxBytes:
		case d <= (len(text)+2)/4 || strings.HasPrefix(name, text):
			near = append(near, candidate{name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var found []string
	for _, c := range near[:min(len(near), most)] {
		found = append(found, c.name)
	}
	if len(found) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(found, " or ") + "?"
}

// Nearest returns names by how little they differ from a text, the nearest first.
func Nearest(text string, names []string) []string {
	const maxBytes = 64
	distances := make(map[string]int, len(names))
	for _, name := range names {
		distances[name] = distance(strings.ToLower(text[:min(len(text), maxBytes)]),
			strings.ToLower(name[:min(len(name), maxBytes)]))
	}
	out := slices.Clone(names)
	slices.SortStableFunc(out, func(a, b string) int { return distances[a] - distances[b] })
	return out
}

// distance returns how many bytes have to be added, removed, changed or exchanged with the next to
// make one text of another.
func distance(a, b string) int {
	prior, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older := prior
		prior, row = row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prior[j]+cost, prior[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
