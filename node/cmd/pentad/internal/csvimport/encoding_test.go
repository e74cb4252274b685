package csvimport

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

func wide(text string, order binary.AppendByteOrder) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

// A file of UTF-16 says that it is one and how to convert it. UTF-8 may have its mark.
func TestEncoding(t *testing.T) {
	const text = "meter,time,kwh\n1,0,1\n"
	f := func(text, want string) {
		t.Helper()
		r := load(t, simple, text)
		if r.err == nil || r.err.Error() != want {
			t.Errorf("%q: %v, want %s", text, r.err, want)
		}
	}
	const mark = "\ufeff"
	f(wide(mark+text, binary.LittleEndian), "a.csv: the file is UTF-16 (byte order mark FF FE); "+
		"convert it to UTF-8: iconv -f UTF-16 -t UTF-8 a.csv > a-utf8.csv")
	f(wide(mark+text, binary.BigEndian), "a.csv: the file is UTF-16 (byte order mark FE FF); "+
		"convert it to UTF-8: iconv -f UTF-16 -t UTF-8 a.csv > a-utf8.csv")
	f(wide("Zähler"+text, binary.LittleEndian), "a.csv: the file is UTF-16LE (every second byte "+
		"is NUL); convert it to UTF-8: iconv -f UTF-16LE -t UTF-8 a.csv > a-utf8.csv")
	f(wide(text, binary.BigEndian), "a.csv: the file is UTF-16BE (every second byte is NUL); "+
		"convert it to UTF-8: iconv -f UTF-16BE -t UTF-8 a.csv > a-utf8.csv")
	f("\xff\xfe\x00\x00m\x00\x00\x00", "a.csv: the file is UTF-32 (byte order mark FF FE 00 00); "+
		"convert it to UTF-8: iconv -f UTF-32 -t UTF-8 a.csv > a-utf8.csv")
	load(t, simple, mark+"\"meter\",time,kwh\n1,0,1\n").want(t,
		[]string{"7/1/1 1970-01-01T00:00:00Z = 1"}, nil)

	for name, want := range map[string]string{
		"stdin": "iconv -f UTF-16 -t UTF-8",
		"x/a b.csv.gz": "zcat 'x/a b.csv.gz' | iconv -f UTF-16 -t UTF-8 > " +
			"'x/a b-utf8.csv'",
	} {
		if got := convertCommand("UTF-16", name); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A join file may begin with the mark of UTF-8, and is refused as UTF-16.
func TestJoinEncoding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.csv")
	mapping := strings.Replace(simple, "{column: meter}",
		"{column: meter, join: {file: "+path+", key: id, value: site}}", 1)
	const table = "\ufeffid,site\n1,5\n"
	for _, text := range []string{table, wide(table, binary.LittleEndian)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := load(t, mapping, "meter,time,kwh\n1,0,1\n")
		switch {
		case text == table:
			r.want(t, []string{"7/5/1 1970-01-01T00:00:00Z = 1"}, nil)
		case r.err == nil || !strings.Contains(r.err.Error(),
			"d.csv: the file is UTF-16 (byte order mark FF FE)"):
			t.Error(r.err)
		}
	}
}
