package csvimport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/sdk/excerpt"
)

// lookupWayOut ends the errors of files that are not lookup files.
const lookupWayOut = "--lookup-file takes a file that an import wrote; for a first import, name " +
	"one that is not there yet"

// parseLookups reads a lookup file.
//
// Errors: with file and line.
func parseLookups(path string, source []byte) (d lookupDocument, err error) {
	offset, err := strictjson.UnmarshalAt(source, &d)
	if err == nil && d.Format == lookupFormat {
		return d, nil
	}
	line := 1 + bytes.Count(source[:min(int(offset), len(source))], []byte{'\n'})
	where := fmt.Sprintf("lookup file %s:%d", path, line)
	var wrong *strictjson.TypeError
	var doubled *strictjson.DoubledKeyError
	var unknown *strictjson.UnknownFieldError
	switch {
	case err == nil && d.Format == "":
		err = fmt.Errorf("%s: no \"format\": %q; %s", where, lookupFormat, lookupWayOut)
	case err == nil:
		err = fmt.Errorf("%s: format is %q, want %q; %s", where, excerpt.Of(d.Format, 40),
			lookupFormat, lookupWayOut)
	case len(bytes.TrimSpace(source)) == 0:
		err = fmt.Errorf("lookup file %s is empty; restore it from a copy, or remove it if no "+
			"import has used it", path)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%s: the file ends in the middle of its JSON; restore it from a copy",
			where)
	case errors.As(err, &doubled):
		err = fmt.Errorf("%s: %w", where, err)
	case errors.As(err, &unknown):
		err = fmt.Errorf("%s: unknown field %q%s; there are format, id and tables", where,
			excerpt.Of(unknown.Name, 40),
			excerpt.DidYouMean(unknown.Name, []string{"format", "id", "tables"}))
	case errors.As(err, &wrong) && strings.HasPrefix(wrong.Member, "tables."):
		err = fmt.Errorf("%s: %s: %s is not an id; write a whole number", where,
			excerpt.Of(wrong.Member, 80), wrong.Value)
	case bytes.Contains(source, []byte(lookupFormat)):
		err = fmt.Errorf("%s: the JSON is not valid at %q; correct it there, or restore the file "+
			"from a copy", where, nearText(source, int(offset)))
	default:
		err = fmt.Errorf("%s: %q is not the JSON of a lookup file; %s", where,
			nearText(source, int(offset)), lookupWayOut)
	}
	return d, err
}

// nearText returns what an error at an offset quotes: its line, or of a long one the rest.
func nearText(source []byte, offset int) string {
	const most = 40
	offset = min(offset, len(source))
	begin := 1 + bytes.LastIndexByte(source[:offset], '\n')
	if offset-begin > most/2 {
		begin = offset
	}
	text, _, _ := bytes.Cut(source[begin:], []byte{'\n'})
	return excerpt.Of(bytes.TrimSpace(text), most)
}
