package guest

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/pentad-db/pentad/sdk/plugin"
)

const (
	statusOwn    = -100 // an error without a status
	resultPrefix = 4    // length of a result whose size differs
)

// registered is the module: WebAssembly calls functions, which have no receiver, so that what they
// share has to be a variable of the package. There is no other.
var registered = module{}

// module is the exports of ABI.md as methods, with what they keep between calls.
type module struct {
	memory     memory
	filter     Filter
	states     states
	growing    growing // the same as states, where they grow
	authors    []author
	describe   func() Description // of the aggregate, else of the filter
	batch      Batch              // of the call that runs
	resultSize uint32
	text       []byte // behind the last negative status
}

// author is what an aggregate of any kind and a filter have in common.
type author interface {
	Describe() Description
	Init(Params) error
}

func (m *module) setAggregate(s states, a author) {
	if m.states != nil {
		panic("guest: a module has one aggregate")
	}
	m.states, m.describe = s, a.Describe
	m.authors = append(m.authors, a)
}

func (m *module) setGrowing(s growing, a author) {
	m.setAggregate(s, a)
	m.growing = s
}

func (m *module) setFilter(f Filter) {
	if m.filter != nil {
		panic("guest: a module has one filter")
	}
	m.filter = f
	m.authors = append(m.authors, f)
	if m.describe == nil {
		m.describe = f.Describe
	}
}

// descriptor returns the address of the 64 bytes.
func (m *module) descriptor() uint32 {
	if m.describe == nil {
		panic("guest: nothing is registered")
	}
	d := m.describe()
	doc := appendDoc(nil, &d.Doc)
	var kinds, size, align uint32 = 0, 0, 1
	if m.filter != nil {
		kinds |= plugin.KindFilter
	}
	if m.states != nil {
		if wrong := m.states.check(); wrong != "" {
			panic("guest: " + wrong)
		}
		kinds |= plugin.KindAggregate
		size, align = m.states.layout()
	}
	if m.growing != nil {
		d.Flags |= plugin.FlagGrows
	}
	if m.states != nil && m.states.linksPredecessors() {
		d.Flags |= plugin.FlagLinksPredecessors
	}
	at := m.memory.alloc(plugin.DescriptorSize)
	dst := m.memory.view(at, plugin.DescriptorSize)[:0]
	u32 := func(v ...uint32) {
		for _, x := range v {
			dst = binary.LittleEndian.AppendUint32(dst, x)
		}
	}
	u32(plugin.DescriptorMagic, plugin.MajorVersion, kinds, d.Need, size, align,
		resultSize(&d.Doc), paramsMax(&d.Doc), d.Flags, d.MaxBatch)
	u32(m.place([]byte(d.Doc.Name)))
	u32(uint32(len(d.Doc.Name)))
	u32(m.place(doc))
	u32(uint32(len(doc)), 0, 0)
	return at
}

// place copies bytes to where the host can read them.
func (m *module) place(b []byte) uint32 {
	at := m.memory.alloc(uint32(len(b)))
	copy(m.memory.view(at, uint32(len(b))), b)
	return at
}

func (m *module) init(params, size uint32) int32 {
	if m.states != nil {
		d := m.describe()
		m.resultSize = resultSize(&d.Doc)
	}
	p := Params(m.memory.view(params, size))
	if len(p)%8 != 0 {
		return m.fail(&Error{plugin.StatusParams, "parameters have 8 bytes each"}, 0)
	}
	for _, a := range m.authors {
		if err := a.Init(p); err != nil {
			return m.fail(err, plugin.StatusParams)
		}
	}
	return m.front()
}

// front returns what is read at the front of payloads, 0 when one reads all.
func (m *module) front() int32 {
	most := 0
	for _, a := range m.authors {
		f, ok := a.(Fronting)
		if !ok {
			return 0
		}
		n := f.Front()
		if n <= 0 || n > math.MaxInt32 {
			return 0
		}
		most = max(most, n)
	}
	return int32(most)
}

// fail keeps the text of an error for lastError and returns its status.
func (m *module) fail(err error, status int32) int32 {
	m.text = append(m.text[:0], err.Error()...)
	var e *Error
	if errors.As(err, &e) && e.Status < 0 {
		return e.Status
	}
	return status
}

// lastError returns address and size of the text behind the last negative status.
func (m *module) lastError() uint64 {
	if len(m.text) == 0 {
		return 0
	}
	return uint64(m.place(m.text))<<32 | uint64(len(m.text))
}

func (m *module) keep(batch, bitmap uint32) int32 {
	m.batch.readBatch(&m.memory, batch)
	words := uint32(m.batch.Rows+63) / 64
	keep := Bitmap(cells[uint64](m.memory.view(bitmap, 8*words)))
	if err := m.filter.Filter(&m.batch, keep); err != nil {
		return m.fail(err, statusOwn)
	}
	return plugin.StatusOK
}

// array returns n states at an address.
func (m *module) array(at, n uint32) []byte {
	size, _ := m.states.layout()
	return m.memory.view(at, n*size)
}

func (m *module) add(batch, array uint32) int32 {
	m.batch.readBatch(&m.memory, batch)
	if err := m.states.add(&m.batch, m.array(array, uint32(m.batch.Groups))); err != nil {
		return m.fail(err, statusOwn)
	}
	return plugin.StatusOK
}

func (m *module) merge(dst, src, n uint32) int32 {
	if err := m.states.merge(m.array(dst, n), m.array(src, n)); err != nil {
		return m.fail(err, statusOwn)
	}
	return plugin.StatusOK
}

// linkPredecessor hands a state its predecessor.
func (m *module) linkPredecessor(state, predecessor uint32) int32 {
	if m.states == nil || !m.states.linksPredecessors() {
		return plugin.StatusUnsupported
	}
	err := m.states.linkPredecessor(m.array(state, 1), m.array(predecessor, 1))
	if err != nil {
		return m.fail(err, statusOwn)
	}
	return plugin.StatusOK
}

// save writes what a state needs to be loaded. One that does not fit is made once for nothing.
func (m *module) save(state, out, size uint32) int32 {
	if m.growing == nil {
		return plugin.StatusUnsupported
	}
	dst := m.memory.view(out, size)
	saved, err := m.growing.save(m.array(state, 1), dst[:0:len(dst)])
	if err != nil {
		return m.fail(err, statusOwn)
	}
	if len(saved) > len(dst) {
		return plugin.StatusCapacity
	}
	copy(dst, saved) // onto itself, but for an author who makes slices of his own
	return int32(len(saved))
}

func (m *module) load(state, in, size uint32) int32 {
	if m.growing == nil {
		return plugin.StatusUnsupported
	}
	if err := m.growing.load(m.array(state, 1), m.memory.view(in, size)); err != nil {
		return m.fail(err, statusOwn)
	}
	return plugin.StatusOK
}

// finish writes n results into out. A result that does not fit is made once for nothing.
func (m *module) finish(array, n, out, size uint32) int32 {
	src, dst := m.array(array, n), m.memory.view(out, size)
	used := 0
	for i := range int(n) {
		from := used
		if m.resultSize == 0 {
			from += resultPrefix
		}
		if from > len(dst) {
			return plugin.StatusCapacity
		}
		result, err := m.states.finish(src, i, dst[from:from:len(dst)])
		if err != nil {
			return m.fail(err, statusOwn)
		}
		if len(result) > len(dst)-from {
			return plugin.StatusCapacity
		}
		copy(dst[from:], result) // onto itself, but for an author who makes slices of his own
		used = from + len(result)
		if m.resultSize == 0 {
			binary.LittleEndian.PutUint32(dst[from-resultPrefix:], uint32(len(result)))
			for ; used%4 != 0 && used < len(dst); used++ {
				dst[used] = 0
			}
		} else if len(result) != int(m.resultSize) {
			return m.fail(errors.New("a result is not as long as its fields"), statusOwn)
		}
	}
	return int32(used)
}
