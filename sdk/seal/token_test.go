package seal

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
)

// TestTokenErrors: what a token cannot be of is named, and not rounded or guessed.
func TestTokenErrors(t *testing.T) {
	ctx := context.Background()
	tenant, s := meter(t, func(d *Definition) {
		d.Fields[0].Order = &Order{AcknowledgeLeakage: true, Low: 10, Width: 5, Buckets: 4}
		d.Fields = append(d.Fields, Field{ID: 2, Name: "day", Kind: Number, Max: 1e6, Sum: true,
			Equal: &Equal{PeriodNs: 86400e9}, Order: &Order{AcknowledgeLeakage: true}})
	})
	series := Series{42, 7}
	for _, c := range []struct {
		field string
		r     Range
		want  string
	}{
		{"none", Everything, `no field "none"`},
		{"energy", Range{10, math.MaxInt64}, "cuts one"}, // below 10 is in the first bucket, too
		{"energy", Range{16, math.MaxInt64}, "cuts one"},
		{"energy", Range{15, 19}, ""}, {"energy", Range{25, math.MaxInt64}, ""},
		{"energy", Range{math.MinInt64, 24}, ""},
		{"energy", Range{math.MinInt64, 17}, "each of 0.005 from 0.010 on, and the range from " +
			"-1000.000 to 0.017 cuts one"},
		{"energy", Range{30, math.MaxInt64}, "cuts one"}, // the last one has no end
		{"energy", Range{20, 14}, "no value is from 0.020 to 0.014"},
		{"energy", Range{1e6 + 1, math.MaxInt64}, "no value"},
		{"energy", Range{math.MinInt64, -1e6 - 1}, "no value"},
		{"day", Everything, ""}, {"day", Range{-1e6, 1e6}, ""}, {"day", Range{1e6, 1e6}, ""},
	} {
		token, err := tenant.RangeToken(ctx, s, c.field, c.r, series)
		if c.want == "" && (err != nil || strings.Count(token, ";") != 1) ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %v: token %q, %v, want %q", c.field, c.r, token, err, c.want)
		}
	}
	equal := func(field string, p Period, many int) (string, error) {
		all := []Series{}
		for mid := range int64(many) {
			all = append(all, Series{mid, 7})
		}
		return tenant.EqualToken(ctx, s, field, Value{Number: 1}, p, all...)
	}
	const day = 86400e9
	if token, err := equal("day", Period{-1, day + 1}, 1); strings.Count(token, ",") != 2 {
		t.Errorf("three days: %q, %v", token, err)
	}
	for _, c := range []struct {
		err  func() (string, error)
		want string
	}{
		{func() (string, error) { return equal("energy", Period{}, 1) },
			`"energy" of schema 7 has no equal`},
		{func() (string, error) { return equal("day", Period{}, 1) }, "by a range of cap"},
		{func() (string, error) { return equal("day", Period{0, 5000 * day}, 1) }, "at most 2000"},
		{func() (string, error) { return equal("day", Period{0, 9 * day}, 1000) }, "at most 60000"},
	} {
		if _, err := c.err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	other, err := OpenTenant(&MemoryKeyring{}, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.RangeToken(ctx, s, "day", Everything, series); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}
