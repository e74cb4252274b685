package figure

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Load reads what Save wrote.
func Load(path string) (List, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var l List
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%s is no list of figures: %w", path, err)
	}
	return l, nil
}

// Compare writes the figures of both lists beside one another with the ratio new to old, and those
// that only one has. Runs on different machines, or at another load, do not compare.
func Compare(w io.Writer, before, after List) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tOLD\tNEW\tNEW / OLD\tUNIT")
	for _, f := range after {
		i := slices.IndexFunc(before, func(b Figure) bool { return b.Name == f.Name })
		if i < 0 {
			fmt.Fprintf(t, "%s\t-\t%s\t-\t%s\n", f.Name, short(f.Value), f.Unit)
			continue
		}
		ratio := "-"
		if before[i].Value != 0 {
			ratio = fmt.Sprintf("%.2f", f.Value/before[i].Value)
		}
		fmt.Fprintln(t, strings.Join([]string{f.Name, short(before[i].Value), short(f.Value), ratio,
			f.Unit}, "\t"))
	}
	for _, f := range before {
		if !slices.ContainsFunc(after, func(a Figure) bool { return a.Name == f.Name }) {
			fmt.Fprintf(t, "%s\t%s\t-\t-\t%s\n", f.Name, short(f.Value), f.Unit)
		}
	}
	return t.Flush()
}
