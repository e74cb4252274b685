package csvimport

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// numbered is a header and 5,000 lines, each with its number in some columns before a value, of
// which that of line 500 has an open quote.
func numbered(header, columns string) string {
	var text strings.Builder
	text.WriteString(header + "\n")
	for number := 2; number <= 5001; number++ {
		quote := ""
		if number == 500 {
			quote = `"`
		}
		text.WriteString(strings.ReplaceAll(columns, "N", fmt.Sprint(number)) + quote + "1\n")
	}
	return text.String()
}

// An open quote costs a few lines, all of which are counted, and the rest of the file is stored.
func TestOpenQuote(t *testing.T) {
	f := func(mapping, text string, first, last int) {
		t.Helper()
		stored := map[int64]bool{}
		m, err := ParseMapping([]byte(mapping))
		if err != nil {
			t.Fatal(err)
		}
		im, err := New(m, Options{Send: func(_ context.Context, b *record.Batch) error {
			for _, mid := range b.MID {
				stored[mid] = true
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		err = im.File(t.Context(), "a.csv", strings.NewReader(text))
		s, bad := im.Summary(), int64(last-first+1)
		if err != nil || s.Lines != 5000 || s.Rejected != bad || s.Records != 5000-bad ||
			s.Reasons["quotes"] != bad {
			t.Errorf("%v, %+v", err, s)
		}
		want := fmt.Sprintf("a.csv lines %d to %d: quotes: column \"kwh\": a quoted field is "+
			"not closed", first, last)
		if s.First == nil || s.First.Error() != want {
			t.Errorf("%v, want %s", s.First, want)
		}
		for number := 2; number <= 5001; number++ {
			if stored[int64(number)] != (number < first || number > last) {
				t.Errorf("line %d: stored is %t", number, stored[int64(number)])
			}
		}
	}
	f(simple, numbered("meter,time,kwh", "N,N,"), 500, 503)
	// Lines of two fields may be prose: the limit of lines finds the quote.
	f("cid: {constant: 7}\nmid: {column: 1}\ncap: {columns: [1]}\nvalues: [{column: 2, moid: 1}]\n",
		numbered("meter,kwh", "N,"), 500, 599)
}

// Text in quotes may go over lines, as long as these do not look like records.
func TestQuotedLines(t *testing.T) {
	r := load(t, simple+"type: text\n", "meter,time,kwh\n1,0,\"a\nb,c\nd,e,f\ng,h,i\nj\"\n2,0,k\n")
	r.want(t, []string{"7/1/1 1970-01-01T00:00:00Z = a\nb,c\nd,e,f\ng,h,i\nj",
		"7/2/1 1970-01-01T00:00:00Z = k"}, nil)
}
