package csvimport

import "slices"

// markRecords is the distance of marks: 16 bytes for a thousand records, and a divisor of the
// batches that are acknowledged.
const markRecords = 1000

// marks say which lines of a file its first records come from.
type marks struct {
	head    int64 // lines before the first line of data; -1: rows of a table
	records []int64
	lines   []int64 // lines that are done, by number of records stored
	last    int64   // records up to the last line
	line    int64
}

// add notes that a line, which is the end of the lines so far, gave some records.
func (m *marks) add(records int, line int64) {
	m.last, m.line = m.last+int64(records), line
	if m.last >= int64(len(m.records)+1)*markRecords {
		m.records, m.lines = append(m.records, m.last), append(m.lines, line)
	}
}

// StoredLines returns how many lines of data of the present file are done when the first records
// of that file are stored: at least, since it knows only some lines. Head is how many lines came
// before the data, -1 for rows of a table.
func (im *Importer) StoredLines(records int64) (lines, head int64) {
	m := &im.marks
	if records >= m.last && records > 0 {
		return m.line - max(m.head, 0), m.head
	}
	i, exact := slices.BinarySearch(m.records, records)
	if !exact {
		i--
	}
	if i < 0 {
		return 0, m.head
	}
	return m.lines[i] - max(m.head, 0), m.head
}
