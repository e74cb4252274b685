package sealed

import (
	"strconv"

	"github.com/pentad-db/pentad/sdk/plugin/guest"
)

// TagBytes is the size of an equality tag.
const TagBytes = 8

// Token has the tags of one field that a query selects by, as they are under each key and in each
// series that it may have records of. A client with keys makes it.
type Token struct {
	Schema Schema
	Offset int // of the tag in a payload
	Width  int // of the tag: 8 or 16

	anyDevice bool // tags are those of all devices
	series    map[tokenSeries][]tag
	last      tokenSeries
	lastTags  []tag
}

type tokenSeries struct {
	key  uint32
	moid int32
	mid  int64
}

// tag is one tag of a token: nil where a range has no end.
type tag []byte

func badToken() error { return invalid("token must be one that sdk/seal or pentad seal made") }

// ParseToken reads a token:
//
//	SCHEMA:CHECK PREFIX FLAGS OFFSET WIDTH;KEY MID MOID TAG,TAG,...;...
//
// MID is * where the tags are those of all devices, and a TAG is - where a range has no end. It
// keeps nothing of text.
func ParseToken(text []byte) (*Token, error) {
	r := reader{rest: text}
	t := &Token{Schema: r.schema(), series: map[tokenSeries][]tag{}}
	t.Offset = int(r.below(HeaderBytes, 1<<16))
	r.want(' ')
	t.Width = int(r.number())
	if t.Width != 8 && t.Width != 16 || t.Offset+t.Width > t.Schema.Prefix {
		r.bad = true
	}
	for !r.bad && len(r.rest) > 0 {
		r.want(';')
		if len(r.rest) == 0 { // like C, which takes one separator more
			break
		}
		r.series(t)
	}
	if r.bad {
		return nil, badToken()
	}
	return t, nil
}

// series reads KEY MID MOID and tags.
func (r *reader) series(t *Token) {
	var s tokenSeries
	s.key = uint32(r.below(0, 1<<32))
	r.want(' ')
	all := r.next('*')
	if !all {
		s.mid = r.number()
	}
	if len(t.series) > 0 && all != t.anyDevice {
		r.bad = true
	}
	t.anyDevice = all
	r.want(' ')
	s.moid = int32(r.below(-1<<31, 1<<31))
	r.want(' ')
	if _, twice := t.series[s]; twice {
		r.bad = true
	}
	var tags []tag
	for more := true; more && !r.bad; more = r.next(',') {
		var one tag
		if !r.next('-') {
			one = make(tag, t.Width)
			r.hex(one)
		}
		tags = append(tags, one)
	}
	t.series[s] = tags
}

// IsRange reports whether the token is one of a range: two ends for each series.
func (t *Token) IsRange() bool {
	for _, tags := range t.series {
		if len(tags) != 2 {
			return false
		}
	}
	return true
}

// IsEqual reports whether the token is one of a value: whole equality tags.
func (t *Token) IsEqual() bool {
	for _, tags := range t.series {
		for _, one := range tags {
			if one == nil {
				return false
			}
		}
	}
	return t.Width == TagBytes
}

// tagsOf returns the tags for row i and its own.
func (t *Token) tagsOf(b *guest.Batch, i int, p []byte) (tags []tag, own tag, err error) {
	h, ok := t.Schema.Header(p)
	if !ok {
		return nil, nil, t.Schema.Other(p, i)
	}
	s := tokenSeries{key: h.KeyID, moid: b.MOID[i], mid: b.MID[i]}
	if t.anyDevice {
		s.mid = 0
	}
	own = p[t.Offset : t.Offset+t.Width]
	if t.lastTags != nil && s == t.last {
		return t.lastTags, own, nil
	}
	tags, ok = t.series[s]
	if !ok {
		return nil, nil, fail(StatusToken, "the token has no tags for key "+
			strconv.FormatUint(uint64(h.KeyID), 10)+" of mid "+strconv.FormatInt(b.MID[i], 10)+
			", moid "+strconv.Itoa(int(b.MOID[i]))+
			"; ask with a token of all series and keys of the query")
	}
	t.last, t.lastTags = s, tags
	return tags, own, nil
}

// InRange reports whether the value of row i is in the range of the token, which [Token.IsRange].
// The batch has mid, moid and payloads.
//
// Errors: a payload that is not of the schema; a series or key that the token has no tags for.
// Cost: no allocation.
func (t *Token) InRange(b *guest.Batch, i int, p []byte) (bool, error) {
	ends, own, err := t.tagsOf(b, i, p)
	if err != nil {
		return false, err
	}
	return (ends[0] == nil || CompareOrder(own, ends[0]) >= 0) &&
		(ends[1] == nil || CompareOrder(own, ends[1]) <= 0), nil
}

// IsOne reports whether row i has the value of the token, which [Token.IsEqual]. The batch has mid,
// moid and payloads.
//
// Errors: as of [Token.InRange]. Cost: no allocation.
func (t *Token) IsOne(b *guest.Batch, i int, p []byte) (bool, error) {
	tags, own, err := t.tagsOf(b, i, p)
	if err != nil {
		return false, err
	}
	for _, one := range tags {
		if string(one) == string(own) {
			return true, nil
		}
	}
	return false, nil
}
