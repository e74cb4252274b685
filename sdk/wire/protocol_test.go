package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

func examplePut() *Put {
	p := &Put{Writer: [16]byte{0: 0x7e, 15: 0x01}, Seq: 42, Batch: new(record.Batch)}
	p.Batch.Append(record.Key{CID: 7, MID: 1001, MOID: 3, CapNs: 1_700_000_000_000_000_000},
		[]byte("21.5"))
	p.Batch.Append(record.Key{CID: 7, MID: 1004, MOID: 3, CapNs: 1_700_000_000_000_000_500},
		[]byte("19"))
	return p
}

// examplePutTombs deletes the second record of examplePut and corrects the first.
func examplePutTombs() *Put {
	p := &Put{Writer: [16]byte{0: 0x7e, 15: 0x01}, Seq: 43, Batch: new(record.Batch)}
	p.Batch.Append(record.Key{CID: 7, MID: 1001, MOID: 3, CapNs: 1_700_000_000_000_000_000},
		[]byte("21.6"))
	p.Batch.AppendTomb(record.Key{CID: 7, MID: 1004, MOID: 3, CapNs: 1_700_000_000_000_000_500})
	return p
}

// examplePersistentPut is the batch of a persistent writer.
func examplePersistentPut() *Put {
	p := plainPut()
	p.Writer, p.Seq, p.Persistent = [16]byte{0: 0x7e, 15: 0x01}, 44, true
	return p
}

func exampleBox() *Box {
	b := new(Box)
	b.Box[record.CID] = record.RangeSet{record.At(7)}
	b.Box[record.MID] = record.RangeSet{record.At(1001)}
	return b
}

func exampleEvent() *Event { return &Event{AcqNs: 1_700_000_100_000_000_000} }

func plainPut() *Put {
	p := &Put{Batch: new(record.Batch)}
	p.Batch.Append(record.Key{CID: 7, MID: 1001, MOID: -3, CapNs: 1_700_000_000_000_000_000},
		[]byte("21.5"))
	return p
}

func exampleReply() *PutReply {
	return &PutReply{FirstAcqNs: 1_700_000_060_000_000_000, LastAcqNs: 1_700_000_060_000_000_001,
		Records: 2}
}

func exampleQuery() *record.Query {
	return &record.Query{
		Box: record.Box{
			record.CID:  {record.At(7)},
			record.MOID: {record.At(3), {From: 5, To: record.MOID.Max()}},
			record.Cap: {{From: 1_700_000_000_000_000_000,
				To: 1_700_003_600_000_000_000}},
		},
		View: record.ViewAsOf, AsOfAcqNs: 1_700_000_100_000_000_000, Order: record.OrderKey,
		Aggregate: record.PluginCall{Name: "stats", Params: []byte{0, 0, 0, 0, 0, 0, 0, 0,
			4, 0, 0, 0, 0, 0, 0, 0}},
		GroupBy: record.GroupBy{MID: true, CapBucketNs: 900_000_000_000},
	}
}

func exampleChain() *record.Query {
	return &record.Query{Aggregate: record.PluginCall{Name: "count"},
		Filters: []record.PluginCall{{Name: "old"}, {Name: "threshold", Params: []byte{
			0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}}}}
}

func exampleWindow() *record.Query {
	return &record.Query{Aggregate: record.PluginCall{Name: "count"}, GroupBy: record.GroupBy{
		Window: record.Window{Unit: record.WindowMonth, N: 3, Zone: "Europe/Berlin"}}}
}

func exampleWhere() *record.Query {
	return &record.Query{Box: record.Box{record.MOID: {record.At(3)}}, Where: "value < 0"}
}

func exampleRows() *record.Batch {
	b := new(record.Batch)
	for i := range int64(24) {
		b.AppendStamped(record.Key{CID: 7, MID: 1001, MOID: 3,
			CapNs: 1_700_000_000_000_000_000 + i*900_000_000_000,
			AcqNs: 1_700_000_060_000_000_000 + i*900_000_000_000},
			[]byte{byte(i / 8), 0, 0, 0, 0, 0, 0, 0})
	}
	return b
}

func exampleGroups() []Group {
	return []Group{{MID: 1001, CapNs: 1_699_999_200_000_000_000, Records: 2, Result: []byte("ok")}}
}

func exampleKeyedGroups() []Group {
	return []Group{{CapNs: 1_699_999_200_000_000_000, Records: 2, Result: []byte("ok"),
		Values: make([]registry.Value, 1)},
		{CapNs: 1_699_999_200_000_000_000, Records: 1, Result: []byte("ok"),
			Values: []registry.Value{registry.Text("acme")}}}
}

func exampleKeyedStates() []GroupState {
	return []GroupState{{MOID: 3, Records: 1, State: []byte("half"),
		Values: []registry.Value{registry.Number(2)}},
		{MID: 7, Records: 1, State: []byte("half"),
			Values: []registry.Value{registry.Number(2), registry.Text("acme")}}}
}

func testGroupExamples(same func(string, []byte, error) []byte,
	read func(string, any, any, error)) {
	frame := same("groups", AppendGroups(nil, exampleGroups(), false), nil)
	groups, err := ParseGroups(frame[frameHeaderBytes:], false, nil)
	read("groups", groups, exampleGroups(), err)
	frame = same("keyed-groups", AppendGroups(nil, exampleKeyedGroups(), true), nil)
	groups, err = ParseGroups(frame[frameHeaderBytes:], true, nil)
	read("keyed-groups", groups, exampleKeyedGroups(), err)
}

func testClusterExamples(same func(string, []byte, error) []byte,
	read func(string, any, any, error)) {
	frame := same("states", AppendStates(nil, exampleStates(), false), nil)
	states, err := ParseStates(frame[frameHeaderBytes:], false, nil)
	read("states", states, exampleStates(), err)
	frame = same("slots-change", AppendChange(nil, exampleSlotsChange()), nil)
	var change Change
	read("slots-change", &change, exampleSlotsChange(),
		ParseSlotsChange(frame[frameHeaderBytes:], &change))
}

func exampleStates() []GroupState {
	return []GroupState{{MID: 1001, CapNs: 1_699_999_200_000_000_000, Predecessor: true, Records: 1,
		State: []byte("half")}}
}

func exampleEnd() *End {
	return &End{Complete: true, HorizonNs: 1_700_000_100_000_000_000, Rows: 24, BlocksScanned: 3,
		RowsExamined: 6144, TookNs: 81_000, HistoryChangedAcqNs: 1_700_000_060_000_000_000}
}

func exampleError() *Error {
	return &Error{Kind: KindOverloaded, Message: "too many requests at once", RetryAfterMs: 200}
}

func exampleSteps() []uint64 {
	steps := []uint64{1000}
	for i := range 15 {
		steps = append(steps, steps[i]+900+uint64(i%2))
	}
	return steps
}

// examples returns the hex examples of PROTOCOL.md by name.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	found, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```hex "):
			name = strings.TrimPrefix(line, "```hex ")
		case strings.HasPrefix(line, "```"):
			name = ""
		case name != "":
			code, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(code), ""))
			if err != nil {
				t.Fatalf("example %s: %q: %v", name, line, err)
			}
			found[name] = append(found[name], b...)
		}
	}
	return found
}

func exampleQueries(t *testing.T) map[string]*record.Query {
	query := exampleQuery()
	if err := query.Normalize(); err != nil {
		t.Fatal(err)
	}
	return map[string]*record.Query{"query": query, "query-chain": exampleChain(),
		"query-window": exampleWindow(), "query-where": exampleWhere(),
		"query-last": {View: record.ViewLatest, Last: 1,
			Box: record.Box{record.CID: {record.At(7)}}},
		"query-select": exampleSelect(),
		"query-module": {Aggregate: record.PluginCall{Name: "mine", Module: []byte("\x00asm")}}}
}

func exampleSelect() *record.Query {
	return &record.Query{Select: "type=thermometer",
		Box: record.Box{record.CID: {record.At(7)}}}
}

// normalized returns a query as it is read.
func normalized(t *testing.T, q *record.Query) *record.Query {
	t.Helper()
	out := *q
	if err := out.Normalize(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestExamples holds the examples of PROTOCOL.md against what is written and read here.
func TestExamples(t *testing.T) {
	found := examples(t)
	same := func(name string, got []byte, err error) []byte {
		t.Helper()
		if err != nil || !bytes.Equal(got, found[name]) {
			t.Errorf("%s: written %x, %v, the document has %x", name, got, err, found[name])
		}
		delete(found, name)
		return got
	}
	read := func(name string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v, %v, want %+v", name, got, err, want)
		}
	}
	payload := func(frame []byte) []byte { return frame[frameHeaderBytes:] }

	for name, want := range map[string]*Put{"put": examplePut(), "put-tombs": examplePutTombs(),
		"persistent-put": examplePersistentPut()} {
		var put Put
		frame, err := AppendPut(nil, want)
		read(name, &put, want, ParsePut(same(name, frame, err), &put))
	}
	var box Box
	read("box", &box, &Box{Box: normalized(t, &record.Query{Box: exampleBox().Box}).Box},
		ParseBox(same("box", AppendBox(nil, exampleBox()), nil), &box))
	var event Event
	read("event", &event, exampleEvent(),
		ParseEvent(payload(same("event", AppendEvent(nil, exampleEvent()), nil)), &event))
	var put Put
	read("put-plain", &put, plainPut(), ParsePut(found["put-plain"], &put))
	delete(found, "put-plain") // the writer here packs
	var reply PutReply
	read("put-reply", &reply, exampleReply(),
		ParsePutReply(payload(same("put-reply", AppendPutReply(nil, exampleReply()), nil)), &reply))
	for name, want := range exampleQueries(t) {
		var query record.Query
		read(name, &query, normalized(t, want),
			ParseQuery(same(name, AppendQuery(nil, want), nil), &query))
	}
	frame, err := AppendRows(nil, exampleRows())
	var rows record.Batch
	read("rows", &rows, exampleRows(), ParseRows(payload(same("rows", frame, err)), &rows))
	testGroupExamples(same, read)
	testClusterExamples(same, read)
	var end End
	read("end", &end, exampleEnd(),
		ParseEnd(payload(same("end", AppendEnd(nil, exampleEnd()), nil)), &end))
	var remote Error
	read("error", &remote, exampleError(),
		ParseError(payload(same("error", AppendError(nil, exampleError()), nil)), &remote))
	testSyncExamples(same, read)
	var change Change
	read("change", &change, exampleChange(),
		ParseChange(payload(same("change", AppendChange(nil, exampleChange()), nil)), &change))
	closed, err := ParseClosed(payload(same("closed", AppendClosed(nil, exampleClosed), nil)))
	read("closed", closed, exampleClosed, err)
	var c columns
	same("column-for", c.append(nil, []uint64{5, 6, 12, 9}), nil)
	same("column-delta", c.append(nil, exampleSteps()), nil)
	for name := range versionFrames(t) { // which TestVersionExamples looks at
		delete(found, name)
	}
	for name := range found {
		t.Errorf("example %s is not tested", name)
	}
}

// tableOf returns the rows of the first table of PROTOCOL.md whose head begins so, cell by cell.
func tableOf(t *testing.T, head string) [][]string {
	t.Helper()
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n"+head)
	if !ok {
		t.Fatalf("no table %q", head)
	}
	var rows [][]string
	for i, line := range strings.Split(rest, "\n") {
		if i < 2 { // the rest of the head, and the line under it
			continue
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// TestTables holds the numbers of PROTOCOL.md against those here, each used once.
func TestTables(t *testing.T) {
	kinds := tableOf(t, "| kind | name |")
	if len(kinds) != len(kindNames)-1 {
		t.Errorf("%d kinds in the document, %d here", len(kinds), len(kindNames)-1)
	}
	names := map[string]bool{}
	for i, row := range kinds {
		if row[0] != strconv.Itoa(i+1) || row[1] != Kind(i+1).String() || names[row[1]] {
			t.Errorf("kind %d is %v: %v", i+1, Kind(i+1), row)
		}
		names[row[1]] = true
	}
	types := map[FrameType]string{FramePut: "put", FramePutReply: "put reply",
		FrameQuery: "query", FrameRows: "rows", FrameGroups: "groups", FrameEnd: "end",
		FrameStates: "states", FrameKeyedGroups: "keyed groups", FrameKeyedStates: "keyed states",
		FrameError: "error", FrameBox: "box", FrameEvent: "event", FrameModule: "module",
		FrameDiff: "diff", FrameDifferences: "differences", FrameVersions: "versions",
		FrameDigestQuery: "digest query", FrameDigests: "digests", FrameRange: "range",
		FrameState: "state", FrameClosed: "closed", FrameChange: "change",
		FrameSlotsChange: "slots change", FrameOpenRows: "open rows",
		FramePersistentPut: "persistent put"}
	rows := tableOf(t, "| type | payload |")
	for _, row := range rows {
		number, err := strconv.Atoi(row[0])
		if kind := FrameType(number); err != nil || types[kind] != row[1] || kind > lastFrameType {
			t.Errorf("type %d is %q: %v", number, types[kind], row)
		}
		delete(types, FrameType(number))
	}
	if len(types) > 0 {
		t.Errorf("the document lacks the types %v", types)
	}
}
