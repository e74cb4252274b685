package seal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MaxTokenBytes is the longest token that a node takes.
const MaxTokenBytes = 60_000

// Series is a device and a quantity.
type Series struct {
	MID  int64
	MOID int32
}

// Range is a range of numbers, both ends included. An end that no value of a field lies beyond is
// none.
type Range struct{ Low, High int64 }

// Everything is the range of all numbers.
var Everything = Range{math.MinInt64, math.MaxInt64}

// Period is a stretch of cap, from FromNs to below ToNs.
type Period struct{ FromNs, ToNs int64 }

// RangeToken returns what the plugin sealed-range selects the values of a field by, in series that
// the query may have records of, under all keys of the tenant. To a node it tells where the ends of
// the range lie among the values. A field that is ordered by buckets takes a range of whole
// buckets.
//
// Errors: what of the field or the range does not fit; [ErrNoKey].
func (t *Tenant) RangeToken(
	ctx context.Context, s *Schema, field string, r Range, series ...Series,
) (string, error) {
	at, err := s.sectionOf(s.order, field, "order")
	if err != nil {
		return "", err
	}
	f := &s.def.Fields[at.field]
	low, high, err := f.ends(r)
	if err != nil {
		return "", fmt.Errorf("field %q: %w", f.Name, err)
	}
	return t.token(ctx, s, at, f.Order.Scope, series, func(k *seriesKeys) ([]string, error) {
		key := orderKeyOf(k.of(f.Order.Scope), k.moid, s, f.ID)
		o := newOrderCipher(&key)
		tags := []string{"-", "-"}
		for i, end := range []*int64{low, high} {
			if end != nil {
				tags[i] = hex.EncodeToString(o.tag(nil, f, at.width, *end))
			}
		}
		return tags, nil
	})
}

// ends returns the ends of a range that values can lie beyond.
func (f *Field) ends(r Range) (low, high *int64, err error) {
	most := int64(f.Max)
	if r.Low > r.High || r.Low > most || r.High < -most {
		return nil, nil, fmt.Errorf("no value is from %s to %s; values are from %s to %s",
			f.Format(r.Low), f.Format(r.High), f.Format(-most), f.Format(most))
	}
	if r.Low > -most {
		low = &r.Low
	}
	if r.High < most {
		high = &r.High
	}
	o := f.Order
	if o.Width == 0 {
		return low, high, nil
	}
	if low != nil && !o.begins(*low) || high != nil && !o.begins(*high+1) {
		return nil, nil, fmt.Errorf("its order is that of %d buckets, each of %s from %s on, and "+
			"the range from %s to %s cuts one; begin and end where buckets do", o.Buckets,
			f.Format(int64(o.Width)), f.Format(o.Low), f.Format(max(r.Low, -most)),
			f.Format(min(r.High, most)))
	}
	return low, high, nil
}

// begins reports whether a bucket begins at v, in front of which there is another.
func (o *Order) begins(v int64) bool {
	n := uint64(v) - uint64(o.Low)
	return v > o.Low && n%o.Width == 0 && n/o.Width < uint64(o.Buckets)
}

// maxTokenPeriods bounds for how many periods a token has tags.
const maxTokenPeriods = 2000

// EqualToken returns what the plugin sealed-equal selects one value of a field by, in series that
// the query may have records of, under all keys of the tenant. To a node it tells which value is
// asked for, by its tag. A field whose tags are those of periods is asked for in caps of during;
// other fields do not look at it.
//
// Errors: what of the field or the value does not fit; [ErrNoKey].
func (t *Tenant) EqualToken(
	ctx context.Context, s *Schema, field string, v Value, during Period, series ...Series,
) (string, error) {
	at, err := s.sectionOf(s.equal, field, "equal")
	if err != nil {
		return "", err
	}
	f := &s.def.Fields[at.field]
	first, last := int64(0), int64(0)
	if f.Equal.PeriodNs > 0 {
		first, last = f.Equal.period(during.FromNs), f.Equal.period(during.ToNs-1)
		if during.ToNs <= during.FromNs || last-first >= maxTokenPeriods {
			return "", fmt.Errorf("field %q: its tags are those of periods; ask for at most %d "+
				"of them, by a range of cap", f.Name, maxTokenPeriods)
		}
	}
	return t.token(ctx, s, at, f.Equal.Scope, series, func(k *seriesKeys) (tags []string, _ error) {
		for p := first; p <= last; p++ {
			key := equalKeyOf(k.of(f.Equal.Scope), k.moid, s, f.ID, p)
			tags = append(tags, hex.EncodeToString(newEqualHash(&key).tag(nil, f.Kind, v)))
		}
		return tags, nil
	})
}

// sectionOf returns where the tag of a field lies.
func (s *Schema) sectionOf(tags []section, field, part string) (section, error) {
	i, err := s.fieldOf(field)
	if err != nil {
		return section{}, err
	}
	for _, sec := range tags {
		if sec.field == i {
			return sec, nil
		}
	}
	return section{}, fmt.Errorf("field %q of schema %d has no %s", field, s.def.ID, part)
}

// token writes the tags of all series and keys, as SEALING.md says.
func (t *Tenant) token(
	ctx context.Context, s *Schema, at section, scope Scope, series []Series,
	tags func(*seriesKeys) ([]string, error),
) (string, error) {
	if own, err := t.schema(s.ID()); err != nil || own != s {
		return "", fmt.Errorf("schema %v is not one of the tenant's", s.checked())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v %d %d %d %d", s.checked(), s.prefix, s.flags, at.offset, at.width)
	ids, err := t.keyring.Keys(ctx, t.cid)
	if err != nil {
		return "", fmt.Errorf("keys of tenant %d: %w", t.cid, err)
	}
	none := b.Len()
	for _, one := range inScope(scope, series) {
		for _, id := range ids {
			k, err := t.scopeKeys(ctx, scope, id, one)
			if errors.Is(err, ErrNoKey) || errors.Is(err, ErrShredded) {
				continue // nothing of the series is to be read under this key
			}
			if err != nil {
				return "", err
			}
			all, err := tags(&k)
			if err != nil {
				return "", err
			}
			mid := "*"
			if scope == OfDevice {
				mid = fmt.Sprint(one.MID)
			}
			fmt.Fprintf(&b, ";%d %s %d %s", id, mid, one.MOID, strings.Join(all, ","))
		}
	}
	if b.Len() > MaxTokenBytes {
		return "", fmt.Errorf("tags of %d series take %d bytes, at most %d go into a token; ask "+
			"for fewer devices or a shorter time", len(series), b.Len(), MaxTokenBytes)
	}
	if b.Len() == none && len(series) > 0 {
		return "", fmt.Errorf("tenant %d: %w for the series of the token", t.cid, ErrNoKey)
	}
	return b.String(), nil
}

// inScope returns the series once each; of a tenant's scope, the quantities.
func inScope(scope Scope, series []Series) (out []Series) {
	seen := map[Series]bool{}
	for _, one := range series {
		if scope == OfTenant {
			one.MID = 0
		}
		if !seen[one] {
			seen[one] = true
			out = append(out, one)
		}
	}
	return slices.Clip(out)
}

// scopeKeys are the keys that tags of a series are derived from.
func (t *Tenant) scopeKeys(
	ctx context.Context, scope Scope, keyID uint32, one Series,
) (k seriesKeys, err error) {
	k.mid, k.moid = one.MID, one.MOID
	if k.root, err = t.root(ctx, keyID); err != nil || scope == OfTenant {
		return k, err
	}
	k.device, err = t.deviceKey(ctx, &k.root, keyID, one.MID)
	return k, err
}
