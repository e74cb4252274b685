package wasmhost

import (
	"fmt"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// A guest gets groups and series of rows as runs, or by row. Runs are faster when they have some
// rows on average: runRows.
const runRows = 8

// mostRuns returns how many runs are worth it for n rows.
func mostRuns(n int) int { return max(1, n/runRows) }

// GroupRun is rows of one group that lie side by side in a batch: from the end of the run before
// it, or row 0, up to End.
type GroupRun struct{ Group, End uint32 }

// rowGroups says of which group each row of a batch is: by row, or as runs. With neither all are of
// group 0.
type rowGroups struct {
	gid  []uint32
	runs []GroupRun
}

// checkRuns checks that runs follow each other, up to the last of n rows.
func checkRuns(runs []GroupRun, n int) error {
	end := uint32(0)
	for _, r := range runs {
		if r.End <= end {
			return fmt.Errorf("plugin aggregate: a run of a group ends at row %d, behind one that "+
				"ends at row %d", r.End, end)
		}
		end = r.End
	}
	if len(runs) > 0 && uint64(end) != uint64(n) {
		return fmt.Errorf("plugin aggregate: runs of groups end at row %d of %d", end, n)
	}
	return nil
}

// group gives the batch its groups, as runs where the guest takes them and they are long enough to
// be faster, or there is one.
func (c *columns) group(x *batch, of *rowGroups, groups int) error {
	n := x.to - x.from
	x.groups = groups
	switch {
	case len(of.runs) > 0:
		c.runs = clipRuns(c.runs[:0], of.runs, x.from, x.to)
		return c.groupRuns(x, n)
	case of.gid == nil && c.need&plugin.NeedRuns != 0 && groups > 0:
		c.runs = append(c.runs[:0], GroupRun{End: uint32(n)})
		x.runs = c.runs
		return nil
	case of.gid == nil:
		c.gids = slices.Grow(c.gids[:0], n)[:n]
		clear(c.gids)
		return c.groupRows(x, c.gids)
	}
	return c.groupRows(x, of.gid[x.from:x.to])
}

// clipRuns appends the runs of the rows [from, to) to dst, whose row 0 is from.
func clipRuns(dst, runs []GroupRun, from, to int) []GroupRun {
	first := sort.Search(len(runs), func(i int) bool { return int(runs[i].End) > from })
	for _, r := range runs[first:] {
		dst = append(dst, GroupRun{r.Group, uint32(min(int(r.End), to) - from)})
		if int(r.End) >= to {
			break
		}
	}
	return dst
}

// groupRuns is group by the runs of c.
func (c *columns) groupRuns(x *batch, n int) error {
	greatest := uint32(0)
	for _, r := range c.runs {
		greatest = max(greatest, r.Group)
	}
	wants := c.need & (plugin.NeedGID | plugin.NeedRuns)
	few := wants != 0 && wants != plugin.NeedGID && len(c.runs) <= mostRuns(n)
	switch {
	case int64(greatest) >= int64(x.groups):
		return x.badGroup(greatest)
	case wants == plugin.NeedRuns, few:
		x.runs = c.runs
	case wants != 0:
		c.gids = slices.Grow(c.gids[:0], n)[:n]
		fillGroups(c.gids, c.runs)
		x.gid = c.gids
	case x.groups > 1:
		return x.manyGroups()
	}
	return nil
}

// fillGroups writes the group of each row of runs, which all have one row where what differs from
// row to row is grouped by.
func fillGroups(gids []uint32, runs []GroupRun) {
	from := uint32(0)
	for _, r := range runs {
		if gids[from] = r.Group; r.End > from+1 {
			rest := gids[from+1 : r.End]
			for i := range rest {
				rest[i] = r.Group
			}
		}
		from = r.End
	}
}

// groupRows is group by the group of each row.
func (c *columns) groupRows(x *batch, gid []uint32) error {
	most := 0
	switch c.need & (plugin.NeedGID | plugin.NeedRuns) {
	case plugin.NeedRuns:
		most = len(gid)
	case plugin.NeedRuns | plugin.NeedGID:
		most = mostRuns(len(gid))
	}
	runs, greatest := c.findRuns(gid, most)
	switch {
	case int64(greatest) >= int64(x.groups):
		return x.badGroup(greatest)
	case runs != nil:
		x.runs = runs
	case c.need&plugin.NeedGID != 0:
		x.gid = gid
	case x.groups > 1:
		return x.manyGroups()
	}
	return nil
}

func (x *batch) badGroup(group uint32) error {
	return fmt.Errorf("group %d in rows %d to %d is not below the number of groups, %d",
		group, x.from, x.to, x.groups)
}

func (x *batch) manyGroups() error {
	return fmt.Errorf("the plugin knows one group only, there are %d", x.groups)
}

// findRuns returns the runs of equal groups, nil when there are more than most, and the greatest
// group.
func (c *columns) findRuns(gid []uint32, most int) (runs []GroupRun, greatest uint32) {
	if most == 0 {
		return nil, slices.Max(gid)
	}
	runs = c.runs[:0]
	last := gid[0]
	for i, g := range gid {
		if g == last {
			continue
		}
		greatest = max(greatest, last)
		if runs = append(runs, GroupRun{last, uint32(i)}); len(runs) >= most {
			c.runs = runs
			return nil, max(greatest, slices.Max(gid[i:]))
		}
		last = g
	}
	c.runs = append(runs, GroupRun{last, uint32(len(gid))})
	return c.runs, max(greatest, last)
}

// seriesColumns are what series runs take the place of.
const seriesColumns = plugin.NeedCID | plugin.NeedMOID | plugin.NeedMID

// seriesOf returns the series of the rows [from, to) as runs, whose row 0 is from. It returns nil
// where the guest does not take them, or takes columns and the batch has these or they are short.
func (c *columns) seriesOf(b *record.Batch, from, to int) []record.SeriesRun {
	if c.need&plugin.NeedSeries == 0 {
		return nil
	}
	takesColumns := c.need&seriesColumns != 0
	if len(b.Series) == 0 {
		if takesColumns {
			return nil // they are there, and to look for series takes longer than to copy them
		}
		return c.findSeries(b, from, to)
	}
	c.series = clipSeries(c.series[:0], b, from, to)
	if takesColumns && len(c.series) > mostRuns(to-from) {
		return nil
	}
	return c.series
}

// clipSeries appends the series of the rows [from, to) to dst, whose row 0 is from.
func clipSeries(dst []record.SeriesRun, b *record.Batch, from, to int) []record.SeriesRun {
	for i := b.SeriesOf(from); ; i++ {
		s := b.Series[i]
		end := int(s.End)
		s.End = uint64(min(end, to) - from)
		if dst = append(dst, s); end >= to {
			return dst
		}
	}
}

// findSeries is seriesOf for a batch with columns.
func (c *columns) findSeries(b *record.Batch, from, to int) []record.SeriesRun {
	c.series = c.series[:0]
	for begin := from; begin < to; {
		end := seriesEnd(b, begin, to)
		c.series = append(c.series, record.SeriesRun{MID: b.MID[begin], CID: b.CID[begin],
			MOID: b.MOID[begin], End: uint64(end - from)})
		begin = end
	}
	return c.series
}

// seriesEnd returns the end of the rows before to that continue the series of a row.
func seriesEnd(b *record.Batch, begin, to int) int {
	cid, mid, moid := b.CID[begin], b.MID[begin], b.MOID[begin]
	end := begin + 1
	for end < to && b.MID[end] == mid && b.CID[end] == cid && b.MOID[end] == moid {
		end++
	}
	return end
}

// fillKeys returns a batch that has the key columns that series runs say of the rows [from, to).
func (c *columns) fillKeys(b *record.Batch, from, to int) *record.Batch {
	k, n := &c.keys, to-from
	k.CID, k.MOID = slices.Grow(k.CID[:0], n)[:n], slices.Grow(k.MOID[:0], n)[:n]
	k.MID = slices.Grow(k.MID[:0], n)[:n]
	k.Series = clipSeries(k.Series[:0], b, from, to)
	k.FillKeys()
	return k
}
