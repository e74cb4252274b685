package index

import (
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// Tile is a box of the keys of a segment; its ranges are half-open. Those of [record.Acq] are
// ranks.
type Tile [record.NumDims]record.Range

// MergeTiles divides the key space into disjoint tiles, so that a merge can cluster one after
// another in bounded memory. A tile has at most the given rows of the sample, unless their keys
// are equal. AcqNs of the sample holds ranks; each of its rows represents the given number of rows,
// all late or all on time. Borders are where [Clusterer.Cluster] would split first, so that the
// blocks are nearly the same as those of clustering everything at once.
//
// Cost: about 0.2 us a row of the sample.
func MergeTiles(
	sample *record.Batch, rows int, each float64, late bool, opt Options,
) []Tile {
	d := tileDivider{rows: rows, Clusterer: NewClusterer(opt)}
	var all Tile
	for dim := range all {
		all[dim] = record.All(record.Dim(dim))
	}
	if sample.Len() == 0 {
		return []Tile{all}
	}
	d.begin(sample, sample.AcqNs)
	d.group(nil)
	g := &d.groups[0]
	d.derive(g)
	if !late {
		d.fitSeries(g, max(1, each))
	}
	d.dividePairs(g, 0, len(d.cids), all)
	return d.tiles
}

type tileDivider struct {
	*Clusterer
	rows  int
	tiles []Tile
}

func (d *tileDivider) dividePairs(g *rowsByPair, lo, hi int, within Tile) {
	switch rows := int(g.starts[hi] - g.starts[lo]); {
	case rows <= d.rows:
		d.tiles = append(d.tiles, within)
	case hi-lo == 1:
		d.divideItems(d.bySeries(g, lo, hi), within)
	default:
		at, dim := d.border(g, lo, hi)
		value := int64(d.cids[at])
		if dim == record.MOID {
			value = int64(d.moids[at])
		}
		below, above := within, within
		below[dim].To, above[dim].From = value, value
		d.dividePairs(g, lo, at, below)
		d.dividePairs(g, at, hi, above)
	}
}

// divideItems divides items of one pair.
func (d *tileDivider) divideItems(items []item, within Tile) {
	dim, width := d.widest(items)
	if len(items) <= d.rows || width == 0 {
		d.tiles = append(d.tiles, within)
		return
	}
	at, key := d.cutBetweenKeys(items, dim)
	value := int64(key)
	switch dim {
	case record.MID:
		value = d.mids[key]
	case record.Cap:
		value = int64(key ^ 1<<63)
	}
	below, above := within, within
	below[dim].To, above[dim].From = value, value
	d.divideItems(items[:at], below)
	d.divideItems(items[at:], above)
}

// cutBetweenKeys divides between keys that differ, as near to the middle as it can be, and returns
// where, and the least key behind.
func (d *tileDivider) cutBetweenKeys(items []item, dim record.Dim) (at int, key uint64) {
	keys := d.keysOf(items, dim)
	d.inTurn = append(d.inTurn[:0], keys...)
	half := len(keys) / 2
	selectNth(keys, half)
	middle := keys[half]
	below, upTo, next := 0, 0, uint64(math.MaxUint64)
	for _, key := range keys {
		switch {
		case key < middle:
			below++
			upTo++
		case key == middle:
			upTo++
		default:
			next = min(next, key)
		}
	}
	at, key = below, middle
	if below == 0 || upTo < len(items) && upTo-half < half-below {
		at, key = upTo, next
	}
	d.divide(items, d.inTurn, key, 0)
	return at, key
}
