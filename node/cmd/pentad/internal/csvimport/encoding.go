package csvimport

import (
	"bufio"
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// convertHint is what to do about text in the encoding of one country.
const convertHint = "convert the file to UTF-8, e.g. from Windows: iconv -f WINDOWS-1252 -t UTF-8"

// byteOrderMark is what some programs begin a UTF-8 file with.
const byteOrderMark = "\xef\xbb\xbf"

// CheckText rejects a file that is UTF-16 or UTF-32, or not text, by its first bytes, which it does
// not take. The name is for the advice, "" or "stdin" for none.
func CheckText(in *bufio.Reader, name string) error {
	const enough = 64
	head, _ := in.Peek(enough) // an error comes again with the next read
	if encoding, sign := wideEncoding(head); encoding != "" {
		return fmt.Errorf("the file is %s (%s); convert it to UTF-8: %s", encoding, sign,
			convertCommand(encoding, name))
	}
	for _, other := range []struct{ start, what string }{
		{"PK\x03\x04", "a ZIP archive or an Excel workbook; unpack it (unzip) or save it as CSV"},
		{"\xd0\xcf\x11\xe0", "an Excel workbook; save it as CSV"},
		{"PAR1", "Parquet; use pentad import with the same mapping"},
		{"ARROW1", "Arrow; use pentad import with the same mapping"},
		{"(\xb5/\xfd", "compressed by zstd; unpack it (unzstd)"},
		{"BZh", "compressed by bzip2; unpack it (bunzip2)"},
		{"\xfd7zXZ", "compressed by xz; unpack it (unxz)"},
		{"%PDF", "PDF; save its table as CSV"},
		{"<?xml", "XML; save it as CSV"},
		{"<!DOCTYPE", "HTML, perhaps an error page; look at it"},
		{"<html", "HTML, perhaps an error page; look at it"},
		{"{\"", "JSON; use pentad put for lines of JSON, pentad import for an export"},
		{"[{", "JSON; save it as CSV"},
	} {
		if bytes.HasPrefix(bytes.TrimPrefix(head, []byte(byteOrderMark)), []byte(other.start)) {
			return fmt.Errorf("the file is %s", other.what)
		}
	}
	return nil
}

// wideEncoding names an encoding of two or four bytes for a character as iconv does, and the sign
// of it; "" if the bytes have none.
func wideEncoding(head []byte) (encoding, sign string) {
	for _, mark := range []struct{ bytes, encoding, shown string }{
		{"\xff\xfe\x00\x00", "UTF-32", "FF FE 00 00"},
		{"\x00\x00\xfe\xff", "UTF-32", "00 00 FE FF"},
		{"\xff\xfe", "UTF-16", "FF FE"}, {"\xfe\xff", "UTF-16", "FE FF"},
	} {
		if bytes.HasPrefix(head, []byte(mark.bytes)) {
			return mark.encoding, "byte order mark " + mark.shown
		}
	}
	var zeros [2]int // at even and odd positions
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	const least = 2 // characters
	most := len(head) / 2
	if most < least {
		return "", ""
	}
	const why = "every second byte is NUL"
	switch { // most characters of a header are ASCII
	case zeros[0] == 0 && zeros[1]*4 >= most*3:
		return "UTF-16LE", why
	case zeros[1] == 0 && zeros[0]*4 >= most*3:
		return "UTF-16BE", why
	}
	return "", ""
}

// convertCommand is a command that writes a file as UTF-8.
func convertCommand(encoding, name string) string {
	convert := "iconv -f " + encoding + " -t UTF-8"
	extension := filepath.Ext(name)
	plain := strings.TrimSuffix(name, extension)
	switch {
	case name == "stdin" || name == "":
		return convert
	case extension == ".gz":
		extension = filepath.Ext(plain)
		return fmt.Sprintf("zcat %s | %s > %s", quoted(name), convert,
			quoted(strings.TrimSuffix(plain, extension)+"-utf8"+extension))
	}
	return fmt.Sprintf("%s %s > %s", convert, quoted(name), quoted(plain+"-utf8"+extension))
}

// quoted is a name as a shell takes it.
func quoted(name string) string {
	if strings.ContainsAny(name, " \t'\"$&;()<>|*?`\\") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
