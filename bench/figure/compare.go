package figure

import (
	"cmp"
	"encoding/json"
	"errors"
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

// Compare writes the figures of both lists with the ratio new to old, and those that only one has.
// It returns how many are worse by more than the tolerance: 0.25 is 25 %. Figures of which neither
// a bar nor the unit says which way is worse are not counted. Runs on different machines, or at
// another load, do not compare; lists without a figure in common are an error.
func Compare(w io.Writer, before, after List, tolerance float64) (worse int, err error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tOLD\tNEW\tNEW / OLD\tUNIT\t")
	common := 0
	for _, f := range after {
		i := slices.IndexFunc(before, func(b Figure) bool { return b.Name == f.Name })
		if i < 0 {
			fmt.Fprintf(t, "%s\t-\t%s\t-\t%s\t\n", f.Name, short(f.Value), f.Unit)
			continue
		}
		common++
		ratio, mark := "-", ""
		if before[i].Value != 0 {
			ratio = fmt.Sprintf("%.2f", f.Value/before[i].Value)
		}
		if f.worse(before[i].Value) > tolerance {
			worse++
			mark = "WORSE"
		}
		fmt.Fprintln(t, strings.Join([]string{f.Name, short(before[i].Value), short(f.Value), ratio,
			f.Unit, mark}, "\t"))
	}
	for _, f := range before {
		if !slices.ContainsFunc(after, func(a Figure) bool { return a.Name == f.Name }) {
			fmt.Fprintf(t, "%s\t%s\t-\t-\t%s\t\n", f.Name, short(f.Value), f.Unit)
		}
	}
	if err := t.Flush(); err != nil {
		return worse, err
	}
	if common == 0 {
		err = errors.New("the runs have no figure in common")
	}
	return worse, err
}

// costs are the units of which less is better.
var costs = []string{"ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB", "cores"}

// worse returns by which share a figure is worse than an earlier value: 0.25 is 25 %, 0 not worse.
// What was nothing before has no share.
func (f Figure) worse(before float64) float64 {
	if before <= 0 || f.Value < 0 {
		return 0
	}
	unit, per, _ := strings.Cut(f.Unit, "/")
	switch {
	case f.Bar != nil && strings.HasPrefix(*f.Bar, ">="), strings.HasSuffix(f.Unit, "records/s"):
		return before/f.Value - 1
	case f.Bar != nil, slices.Contains(costs, unit) && per != "s":
		return f.Value/before - 1
	}
	return 0
}

// Spread writes how far the ratios of two runs of the same program are apart, the furthest first,
// and returns how many are further than the tolerance: 0.25 is 25 %.
func Spread(w io.Writer, before, after List, tolerance float64) (int, error) {
	type pair struct {
		name     string
		old, new float64
		apart    float64 // 0.25 when one is 25 % more than the other
	}
	var pairs []pair
	for _, f := range after {
		i := slices.IndexFunc(before, func(b Figure) bool { return b.Name == f.Name })
		if i < 0 || f.Unit != Ratio || f.Value <= 0 || before[i].Value <= 0 {
			continue
		}
		quotient := f.Value / before[i].Value
		pairs = append(pairs, pair{f.Name, before[i].Value, f.Value,
			max(quotient, 1/quotient) - 1})
	}
	if len(pairs) == 0 {
		return 0, errors.New("the runs have no ratio in common")
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.apart, a.apart) })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RATIO\tFIRST\tSECOND\tAPART")
	beyond := 0
	for _, p := range pairs {
		if p.apart > tolerance {
			beyond++
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f %%\n", p.name, short(p.old), short(p.new), 100*p.apart)
	}
	if err := t.Flush(); err != nil {
		return 0, err
	}
	middle := pairs[len(pairs)/2].apart
	_, err := fmt.Fprintf(w,
		"%d ratios, median %.0f %% apart, at most %.0f %%; %d beyond %.0f %%\n",
		len(pairs), 100*middle, 100*pairs[0].apart, beyond, 100*tolerance)
	return beyond, err
}
