package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// abiExample returns a hex example of the document of the ABI.
func abiExample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```hex "+name+"\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("ABI.md has no example %s", name)
	}
	var out []byte
	for line := range strings.Lines(block) {
		code, _, _ := strings.Cut(line, "#")
		b, err := hex.DecodeString(strings.Join(strings.Fields(code), ""))
		if err != nil {
			t.Fatalf("example %s: %q: %v", name, line, err)
		}
		out = append(out, b...)
	}
	return out
}

// sum adds up the first bytes of payloads; its result is what finish says.
type sum struct {
	fields []plugin.Field
	finish func(total int64, dst []byte) []byte
	params Params
}

type total struct{ n int64 }

func (s *sum) Describe() Description {
	return Description{Doc: plugin.Doc{Name: "sum", Result: s.fields},
		Need: plugin.NeedGID | plugin.NeedOffsets | plugin.NeedData | plugin.NeedRuns}
}

func (s *sum) Init(p Params) error {
	s.params = p
	if p.Count() > 1 {
		return fmt.Errorf("%d parameters", p.Count())
	}
	return nil
}

func (s *sum) Reset(t *total) { t.n = 0 }

func (s *sum) Add(b *Batch, states []total) error {
	if len(states) != b.Groups {
		return errors.New("states do not fit the groups")
	}
	row := 0
	for _, run := range b.Runs {
		for ; row < int(run.End); row++ {
			states[run.GID].n += int64(b.Payload(row)[0])
		}
	}
	for i, g := range b.GID {
		p := b.Payload(i)
		if len(p) == 0 {
			return ShortPayload(i, 0, 1)
		}
		states[g].n += int64(p[0])
	}
	return nil
}

func (s *sum) Merge(dst, src *total) error {
	dst.n += src.n
	return nil
}

func (s *sum) Finish(t *total, dst []byte) ([]byte, error) { return s.finish(t.n, dst), nil }

func fixedSum() *sum {
	return &sum{fields: []plugin.Field{{Name: "sum", Type: plugin.I64}},
		finish: func(total int64, dst []byte) []byte {
			return binary.LittleEndian.AppendUint64(dst, uint64(total))
		}}
}

// newModule is a module of its own, so that tests do not meet in the one of the package.
func newModule(s *sum) *module {
	m := &module{}
	m.setAggregate(newStates(Aggregate[total](s)), s)
	return m
}

// The descriptor is that of ABI.md, but for its addresses.
func TestDescriptor(t *testing.T) {
	m := newModule(fixedSum())
	got := bytes.Clone(m.memory.view(m.descriptor(), plugin.DescriptorSize))
	want := abiExample(t, "descriptor")
	text := func(field int) string {
		u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(got[at:]) }
		return string(m.memory.view(u32(field), u32(field+4)))
	}
	name, doc := text(40), text(48)
	if name != "sum" || doc != `{"name":"sum","result":[{"name":"sum","type":"i64"}]}` {
		t.Errorf("name %q, document %q", name, doc)
	}
	clear(got[40:44])
	clear(want[40:44])
	clear(got[48:52])
	clear(want[48:52])
	if !bytes.Equal(got, want) {
		t.Errorf("descriptor\n%swant\n%s", hex.Dump(got), hex.Dump(want))
	}
}

// give puts a batch of ABI.md where it says that it lies.
func give(t *testing.T, m *module, name string) uint32 {
	const at = 0x2040
	m.memory.regions = append(m.memory.regions, region{at: at, bytes: abiExample(t, name)})
	return at
}

func TestExampleBatches(t *testing.T) {
	m := newModule(fixedSum())
	m.batch.readBatch(&m.memory, give(t, m, "batch"))
	b := &m.batch
	if b.Rows != 3 || !reflect.DeepEqual(b.MID, []int64{7, -1, 7}) || b.CID != nil ||
		!reflect.DeepEqual(b.GID, []uint32{0, 1, 0}) || b.Runs != nil || b.Groups != 2 {
		t.Errorf("batch %+v", b)
	}
	if string(b.Payload(0)) != "\x0a\x0b" || len(b.Payload(1)) != 0 ||
		string(b.Payload(2)) != "\x14\x15\x16" {
		t.Errorf("payloads %q", b.Data)
	}
	m = newModule(fixedSum())
	m.batch.readBatch(&m.memory, give(t, m, "dense"))
	b = &m.batch
	if b.Stride != 8 || b.GID != nil || !reflect.DeepEqual(b.Runs, []Run{{0, 3}}) || b.Seq != 1 ||
		F64.Read(b.Payload(2)) != 1e300 || b.Offsets != nil {
		t.Errorf("dense %+v", b)
	}
	m = newModule(fixedSum())
	m.batch.readBatch(&m.memory, give(t, m, "series"))
	b = &m.batch
	want := []Series{{MID: 7, CID: 1, MOID: 5, End: 2}, {MID: -1, CID: 1, MOID: 5, End: 3}}
	if b.Rows != 3 || b.MID != nil || !reflect.DeepEqual(b.Series, want) {
		t.Errorf("series %+v", b)
	}
}

// A life of two instances: states made, added to, carried over, merged, finished.
func TestAggregateLife(t *testing.T) {
	m := newModule(fixedSum())
	if status := m.init(0, 0); status != 0 {
		t.Fatal(status)
	}
	array := m.memory.alloc(64)
	m.states.reset(m.array(array, 2))
	if status := m.add(give(t, m, "dense"), array); status != 0 {
		t.Fatalf("%d: %s", status, m.text)
	}
	states := m.array(array, 2)
	// The first bytes of 1.5, -2 and 1e300 are 0, 0 and 0x9c.
	if binary.LittleEndian.Uint64(states) != 0x9c || binary.LittleEndian.Uint64(states[8:]) != 0 {
		t.Errorf("states %x", states)
	}
	other := m.memory.alloc(64)
	copy(m.memory.view(other, 16), "\x01\x00\x00\x00\x00\x00\x00\x00\x02")
	if status := m.merge(array, other, 2); status != 0 {
		t.Fatal(status)
	}
	out := m.memory.alloc(64)
	if n := m.finish(array, 2, out, 64); n != 16 {
		t.Fatal(n)
	}
	result := m.memory.view(out, 16)
	if result[0] != 0x9d || result[8] != 2 {
		t.Errorf("results %x", result)
	}
	if n := m.finish(array, 2, out, 15); n != plugin.StatusCapacity {
		t.Errorf("15 bytes for two results of 8: %d", n)
	}
	m = newModule(fixedSum())
	array = m.memory.alloc(64)
	if status := m.add(give(t, m, "batch"), array); status != plugin.StatusPayload {
		t.Errorf("an empty payload gives %d", status)
	}
	said := m.lastError()
	text := string(m.memory.view(uint32(said>>32), uint32(said)))
	const want = "record 1 of the batch has a payload of 0 bytes, the number ends at byte 1"
	if text != want {
		t.Errorf("error %q, want %q", text, want)
	}
}

// Results that differ in size are written as the example of ABI.md, or not at all.
func TestVariableResults(t *testing.T) {
	texts := []string{"hello", "", "ptd1"}
	s := &sum{finish: func(total int64, dst []byte) []byte { return append(dst, texts[total]...) }}
	m := newModule(s)
	if status := m.init(0, 0); status != 0 {
		t.Fatal(status)
	}
	array := m.memory.alloc(64)
	for i := range 3 {
		binary.LittleEndian.PutUint64(m.memory.view(array, 24)[8*i:], uint64(i))
	}
	want := abiExample(t, "results")
	for room := range uint32(64) {
		out := m.memory.alloc(64)
		n := m.finish(array, 3, out, room)
		switch {
		case int(room) < len(want) && n != plugin.StatusCapacity:
			t.Errorf("%d bytes of room: %d", room, n)
		case int(room) >= len(want) && !bytes.Equal(m.memory.view(out, uint32(max(n, 0))), want):
			t.Errorf("%d bytes of room: %d, %x", room, n, m.memory.view(out, room))
		}
	}
	s = fixedSum()
	s.finish = func(_ int64, dst []byte) []byte { return append(dst, 1) }
	m = newModule(s)
	m.init(0, 0)
	if n := m.finish(m.memory.alloc(64), 1, m.memory.alloc(64), 64); n != statusOwn {
		t.Errorf("a result of one byte for a field of eight gives %d", n)
	}
}

func TestParams(t *testing.T) {
	s := fixedSum()
	m := newModule(s)
	at := m.memory.alloc(64)
	copy(m.memory.view(at, 32), abiExample(t, "params"))
	f := func(size uint32, want int32) {
		t.Helper()
		if got := m.init(at, size); got != want {
			t.Errorf("%d bytes of parameters give %d, want %d", size, got, want)
		}
	}
	f(0, 0)
	f(8, 0)
	f(9, plugin.StatusParams)
	f(32, plugin.StatusParams) // an error without a status
	if p := s.params; p.Count() != 4 || p.U64(0) != 2 || p.I64(1) != 4 || p.F64(3) != 21.5 {
		t.Errorf("parameters %x", []byte(p))
	}
}

// A text lies behind the parameters, and the descriptor has room for the largest.
func TestTextParams(t *testing.T) {
	p := Params(abiExample(t, "params-text"))
	if p.U64(0) != 5 || string(p.Text(1)) != "mean x" {
		t.Errorf("parameters %x", []byte(p))
	}
	d := &plugin.Doc{Params: []plugin.Param{{Type: plugin.U64}, {Type: plugin.Text, Size: 9}},
		Result: []plugin.Field{{Type: plugin.Text}}}
	if paramsMax(d) != 32 || resultSize(d) != 0 {
		t.Errorf("%d bytes of parameters, results of %d", paramsMax(d), resultSize(d))
	}
}

// What does not lie where the host may write is never read.
func TestAddresses(t *testing.T) {
	var m memory
	at := m.alloc(100)
	if at%regionAlign != 0 || len(m.view(at, 100)) != 100 || m.view(12345, 0) != nil {
		t.Fatalf("address %d", at)
	}
	if m.alloc(1<<31+1) != 0 {
		t.Error("more than all memory is there")
	}
	f := func(at, size uint32) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%d bytes at %d are there", size, at)
			}
		}()
		m.view(at, size)
	}
	f(at, 101)
	f(at-1, 1)
	f(at+100, 1)
	f(at+99, 1<<32-1)
}

func TestStateTypes(t *testing.T) {
	f := func(wrong string, ok bool) {
		t.Helper()
		if (wrong == "") != ok {
			t.Errorf("%q", wrong)
		}
	}
	f(checkState[uint64](), true)
	f(checkState[struct {
		a [2]uint32
		b float64
		c struct{ d, e int32 }
	}](), true)
	f(checkState[[4096]uint64](), true)
	f(checkState[struct{}](), false)
	f(checkState[int](), false)
	f(checkState[*uint64](), false)
	f(checkState[string](), false)
	f(checkState[[]byte](), false)
	f(checkState[struct {
		a uint32
		b uint64
	}](), false) // padding
	f(checkState[[70000]byte](), false)
}

func checkState[S any]() string { return (&typedStates[S]{}).check() }

// below keeps rows whose first byte is below 20.
type below struct{ sum }

func (*below) Filter(b *Batch, keep Bitmap) error {
	for i := range b.Rows {
		if p := b.Payload(i); len(p) > 0 && p[0] < 20 {
			keep.Set(i)
		}
	}
	return nil
}

func TestFilter(t *testing.T) {
	m := &module{}
	m.setFilter(&below{})
	at := m.memory.alloc(8)
	if status := m.keep(give(t, m, "batch"), at); status != 0 {
		t.Fatal(status)
	}
	if got := m.memory.view(at, 8)[0]; got != 1 {
		t.Errorf("kept %b, want 1", got)
	}
}

// fronting is a filter that reads some bytes at the front of payloads.
type fronting struct {
	below
	bytes int
}

func (f *fronting) Front() int { return f.bytes }

// frontingSum is an aggregate that does.
type frontingSum struct {
	*sum
	bytes int
}

func (f *frontingSum) Front() int { return f.bytes }

// What is read at the front of payloads is the most that any says, and all where one says nothing.
func TestFront(t *testing.T) {
	f := func(want int32, aggregate, filter int) {
		t.Helper()
		m := &module{}
		if a := (&frontingSum{fixedSum(), aggregate}); aggregate >= 0 {
			m.setAggregate(newStates(Aggregate[total](a)), a)
		}
		switch {
		case filter >= 0:
			m.setFilter(&fronting{bytes: filter})
		case filter == -1:
			m.setFilter(&below{})
		}
		if got := m.init(0, 0); got != want {
			t.Errorf("fronts of %d and %d: %d, want %d", aggregate, filter, got, want)
		}
	}
	const none = -2
	f(8, 8, none)
	f(12, none, 12)
	f(12, 8, 12)
	f(0, 8, 0)
	f(0, 8, -1)
	f(0, 1<<31, none)
	for number, want := range map[NumberType]int{F64: 13, F32: 9, U32: 9, Text: 0} {
		if got := number.Front(5); got != want {
			t.Errorf("type %d at 5: %d, want %d", number, got, want)
		}
	}
}

// Calls that see records allocate nothing.
func TestNoAllocation(t *testing.T) {
	m := newModule(fixedSum())
	m.setFilter(&below{})
	batch, array := give(t, m, "dense"), m.memory.alloc(64)
	f := func(name string, call func() int32) {
		t.Helper()
		if n := testing.AllocsPerRun(100, func() { call() }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	f("add", func() int32 { return m.add(batch, array) })
	f("merge", func() int32 { return m.merge(array, array, 2) })
	f("filter", func() int32 { return m.keep(batch, array) })
}

func FuzzDocument(f *testing.F) {
	f.Add("stats", "a \"quoted\" \\ <b>&\x01\n\t\u2028é", uint8(3))
	f.Fuzz(func(t *testing.T, name, text string, n uint8) {
		d := &plugin.Doc{Name: name, About: text}
		for i := range int(n % 4) {
			d.Payload = append(d.Payload, text)
			d.Params = append(d.Params, plugin.Param{Name: text, Type: plugin.Enum, Help: name,
				Enum: []string{name, text}[:i%3], Default: text, Min: name, Size: i,
				Max: text, Unit: name})
			d.Result = append(d.Result, plugin.Field{Name: name, Type: text, Unit: text,
				Repeat: i == 2})
		}
		var got, want plugin.Doc
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		written := appendDoc(nil, d)
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nis read as %+v, %v; want %+v", written, got, err, want)
		}
		if !bytes.Equal(written, raw) && utf8.ValidString(name) && utf8.ValidString(text) {
			t.Errorf("written %s\nencoding/json %s", written, raw)
		}
	})
}
