// Package selector reads the five selectors of the command line and of HTTP parameters, one per
// dimension, into sets of ranges, and writes them back.
//
// It knows the syntax and the two kinds of axis, numbers and times; it knows nothing of flags,
// queries or the network, and starts no goroutines.
package selector

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// Syntax is the sentence for help pages.
const Syntax = "v | a,b,c | a..b (b left out) | a..=b (b included) | a.. | ..b | *"

// Parse reads one selector. A list may mix values and ranges. On cap and acq a value is a time
// ([timeparse.Forms]); a date or month selects all of it, as a value and as the end of a..=b.
//
// Returns: a set that is not yet normalized; nil, the whole dimension, for "*".
// Errors:  what is wrong, without the name of the dimension: callers call it differently.
func Parse(d record.Dim, text string, now time.Time) (record.RangeSet, error) {
	return ParseIn(d, text, now.UTC())
}

// ParseIn is Parse where times without an offset are of the zone of now.
func ParseIn(d record.Dim, text string, now time.Time) (record.RangeSet, error) {
	text = strings.TrimSpace(text)
	if text == "*" {
		return nil, nil
	}
	var set record.RangeSet
	for part := range strings.SplitSeq(text, ",") {
		if len(set) == record.MaxRangesPerDim {
			return nil, fmt.Errorf("more than %d values and ranges; ask in several queries",
				record.MaxRangesPerDim)
		}
		r, err := parseRange(d, strings.TrimSpace(part), now)
		if err != nil {
			return nil, err
		}
		set = append(set, r)
	}
	return set, nil
}

func parseRange(d record.Dim, text string, now time.Time) (record.Range, error) {
	switch text {
	case "":
		return record.Range{}, fmt.Errorf("empty; write %s", Syntax)
	case "*":
		return record.Range{}, errors.New("* selects everything; use it alone")
	}
	left, right, isRange := strings.Cut(text, "..")
	if !isRange {
		return parseValue(d, text, now)
	}
	right, included := strings.CutPrefix(right, "=")
	if left == "" && right == "" || included && right == "" {
		return record.Range{}, fmt.Errorf("%q has no end; write %s", text, Syntax)
	}
	r := record.All(d)
	if left != "" {
		from, err := parseValue(d, left, now)
		if err != nil {
			return r, err
		}
		r.From = from.From
	}
	if right != "" {
		to, err := parseEnd(d, right, included, now)
		if err != nil {
			return r, err
		}
		r.To = to
	}
	if r.From >= r.To {
		hint := ""
		if r.From > r.To {
			hint = "; it ends before it begins"
		} else if isRange && !included {
			hint = fmt.Sprintf("; the end is left out, %s..=%s includes it", left, right)
		}
		return r, fmt.Errorf("%q holds nothing%s", text, hint)
	}
	return r, nil
}

// parseEnd reads the end of a range. The reserved maximum is allowed where it means "no end".
func parseEnd(d record.Dim, text string, included bool, now time.Time) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n == d.Max() && !included {
		return n, nil
	}
	r, err := parseValue(d, text, now)
	if err != nil {
		return 0, err
	}
	if included {
		return r.To, nil
	}
	return r.From, nil
}

func parseValue(d record.Dim, text string, now time.Time) (record.Range, error) {
	if d == record.Cap || d == record.Acq {
		span, err := timeparse.ParseIn(text, now)
		return record.Range{From: span.FromNs, To: span.ToNs}, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return record.Range{}, fmt.Errorf("%q is not an integer; use %s", text, Syntax)
	}
	if err == nil && n == d.Max() {
		return record.Range{}, fmt.Errorf("%d means \"no end\"; write a.. for a range without one",
			n)
	}
	if err != nil || n < d.Min() || n > d.Max() {
		return record.Range{}, fmt.Errorf("%s is outside %d to %d", text, d.Min(), d.Max()-1)
	}
	return record.At(n), nil
}

// Format writes a set so that [Parse] reads the same: numbers, and times in RFC 3339.
func Format(d record.Dim, set record.RangeSet) string {
	if len(set) == 0 {
		return "*"
	}
	number := strconv.AppendInt
	if d == record.Cap || d == record.Acq {
		number = func(text []byte, ns int64, _ int) []byte { return timeparse.Append(text, ns) }
	}
	var text []byte
	for i, r := range set {
		if i > 0 {
			text = append(text, ',')
		}
		switch {
		case r.From != math.MaxInt64 && r.To == r.From+1:
			text = number(text, r.From, 10)
			continue
		case r.From > d.Min() || r.To == d.Max():
			text = number(text, r.From, 10)
		}
		text = append(text, ".."...)
		if r.To != d.Max() {
			text = number(text, r.To, 10)
		}
	}
	return string(text)
}

// FormatBox formats a box as selectors, without dimensions that clients leave out.
func FormatBox(box *record.Box) map[string]string {
	out := map[string]string{}
	for dim := range record.Dim(record.NumDims) {
		if set := box.Asked(dim); len(set) > 0 {
			out[dim.String()] = Format(dim, set)
		}
	}
	return out
}
