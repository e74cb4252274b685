package queryflags

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const topDoc = `{"name":"top","params":[{"name":"k","type":"u64","min":"1","max":"9","default":"3"},
{"name":"share","type":"f64","unit":"%"},{"name":"low","type":"i64","min":"0","unit":"kW"}],
"result":[{"name":"label","type":"text"},{"name":"since","type":"time"},
{"name":"full","type":"bool"},
{"name":"value","type":"f64","unit":"kW","repeat":true},{"name":"count","type":"u64","repeat":true}]}`

// Fields that repeat together are rows, units stand in the header of a table, and a group without
// any such row has one with nothing in them.
func TestResultRows(t *testing.T) {
	doc, err := plugin.ParseDoc([]byte(topDoc))
	if err != nil {
		t.Fatal(err)
	}
	u64 := binary.LittleEndian.AppendUint64
	once := u64(u64(append(u64(nil, 2), "a\x1b\x00\x00\x00\x00\x00\x00"...), 1e9), 1)
	pairs := u64(u64(u64(u64(once, math.Float64bits(1.5)), 7), math.Float64bits(2)), 1e6)
	groups := []wire.Group{{MID: 1, Records: 9, Result: pairs}, {MID: 2, Result: once}}
	by := record.GroupBy{MID: true}
	write := func(format output.Format) string {
		var b bytes.Buffer
		w := output.NewWriter(&b, output.Options{Format: format}, GroupColumns(by, doc, nil)...)
		if err := WriteGroups(w, by, doc, nil, groups); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	csv := write(output.CSV)
	const want = "mid,records,label,since,full,value,count\n" +
		"1,9,a\x1b,1970-01-01T00:00:01Z,true,1.5,7\n" +
		"1,9,a\x1b,1970-01-01T00:00:01Z,true,2,1000000\n" +
		"2,0,a\x1b,1970-01-01T00:00:01Z,true,,\n"
	if csv != want {
		t.Errorf("%q, want %q", csv, want)
	}
	table := write(output.Table)
	if !strings.Contains(table, "VALUE (kW)") || !strings.Contains(table, "1,000,000") ||
		strings.Contains(table, "\x1b") || strings.Count(table, "1970-01-01 00:00:01Z") != 3 {
		t.Errorf("table\n%s", table)
	}
}

// Parts of a key in a result are names, whatever their size.
func TestResultIDs(t *testing.T) {
	f := func(field string, want string) {
		t.Helper()
		var b bytes.Buffer
		w := output.NewWriter(&b, output.Options{Format: output.Table},
			output.Column{Name: "X", Right: true})
		if err := w.Row(resultValue(field, int64(1234567))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %q, %v; want %s", field, b.String(), err, want)
		}
	}
	f("mid", "1234567")
	f("from_mid", "1234567")
	f("device_id", "1234567")
	f("amid", "1,234,567")
	f("count", "1,234,567")
}
