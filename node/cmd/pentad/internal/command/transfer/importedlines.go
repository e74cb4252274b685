package transfer

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
)

// continues is what to do after an import that ended early.
const continues = "; run the same command to continue"

// importedLines are the lines of data of one file that an import has come through.
type importedLines struct {
	name     string
	stored   int64 // or rejected, or without a value
	all      int64 // 0: not known
	rejected bool  // some of those that were read
}

func (l *importedLines) String() string {
	text := output.Thousands(l.stored)
	if l.all >= l.stored && l.all > 0 {
		text += " of " + output.Thousands(l.all)
	}
	if l.rejected {
		return text + " lines stored or rejected"
	}
	return text + " lines stored"
}

// left says how far an import of files came that ended early, and how to go on.
func (r *mappedImport) left(files []string) string {
	text := ""
	switch {
	case !r.sent:
		text = "nothing was stored"
	case r.stored.records == 0:
		text = "no line is known to be stored"
	default:
		if text = r.at.String(); len(files) > 1 {
			text = fmt.Sprintf("file %d of %d, %s: %s", r.stored.files, len(files), r.at.name, text)
		}
	}
	return text + goOn(r.again, files, r.sent)
}

// goOn says how to go on with an import that ended early.
func goOn(again bool, files []string, sent bool) string {
	switch {
	case !sent:
		return ""
	case again:
		return "; another run with --again stores all lines again"
	case !allRegular(files):
		return "; another run stores all of the input again"
	}
	return continues
}

// lineCount counts the lines of a text that is written to it, as an editor numbers them.
type lineCount struct {
	bytes, ends int64
	first       [2]byte
	last        byte
}

// Write never fails.
func (l *lineCount) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if l.bytes < int64(len(l.first)) {
		copy(l.first[l.bytes:], p)
	}
	l.bytes += int64(len(p))
	l.ends += int64(bytes.Count(p, []byte{'\n'}))
	l.last = p[len(p)-1]
	return len(p), nil
}

// plain reports whether the text is there and not that of a compressed file.
func (l *lineCount) plain() bool { return l.bytes > 0 && l.first != [2]byte{0x1f, 0x8b} }

func (l *lineCount) count() int64 {
	if l.bytes > 0 && l.last != '\n' {
		return l.ends + 1
	}
	return l.ends
}

// epochText says that a time may be of another unit than ns.
func epochText(text string) string {
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return ""
	}
	format, unit, _ := timeparse.EpochUnit(text)
	return fmt.Sprintf("time %s was read as ns since 1970, %s; if it is in %s, use --time-format "+
		"%s (format: %s); pentad erase --acq reverts this import", text, timeparse.Format(ns),
		unit, format, format)
}

// repeatsText says which lines repeat the key of an earlier line and what became of them, "" if
// there is none.
func repeatsText(r *csvimport.Repeats) string {
	const unknown = "; not all lines could be compared with all earlier ones, because the import " +
		"has more keys than are remembered"
	if r.Lines == 0 {
		if r.AtLeast {
			return "no line was found to repeat the key of an earlier line" + unknown
		}
		return ""
	}
	text, them := output.Thousands(r.Lines)+" lines repeat", "each is"
	if r.Lines == 1 {
		text, them = "1 line repeats", "it is"
	}
	if r.AtLeast {
		text = "at least " + text
	}
	text += " the key (cid, mid, moid, cap) of an earlier line" + repeatExample(r)
	switch {
	case r.Equal == r.Lines && r.Lines > 1:
		text += ", all with the same values"
	case r.Equal == r.Lines:
		text += ", with the same values"
	case r.Equal > 0:
		text += fmt.Sprintf(", %s of them with the same values", output.Thousands(r.Equal))
	}
	text += "; " + them + " stored as a newer version: the later one is the latest, --view all " +
		"shows both"
	if r.AtLeast {
		text += unknown
	}
	return text
}

// repeatExample names the first line that repeats a key, and the earlier line.
func repeatExample(r *csvimport.Repeats) string {
	what := ", e.g. "
	if r.Lines == 1 && !r.AtLeast {
		what = ": "
	}
	switch e := r.First; {
	case e.File != e.EarlierFile:
		return fmt.Sprintf("%s%s line %d that of %s line %d", what, e.File, e.Line, e.EarlierFile,
			e.EarlierLine)
	case e.Line == e.EarlierLine:
		return fmt.Sprintf("%s%s line %d has two values with one key (give each its own moid)",
			what, e.File, e.Line)
	default:
		return fmt.Sprintf("%s%s line %d that of line %d", what, e.File, e.Line, e.EarlierLine)
	}
}
