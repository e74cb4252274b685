package guest

import (
	"reflect"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// maxStateBytes is what a host accepts.
const maxStateBytes = 64 << 10

// states is an aggregate without its type parameter: arrays of states are bytes.
type states interface {
	layout() (size, align uint32)
	check() string // what is wrong with the type, "" for nothing
	reset(array []byte)
	add(b *Batch, array []byte) error
	merge(dst, src []byte) error
	finish(array []byte, i int, dst []byte) ([]byte, error)
	linksPredecessors() bool
	linkPredecessor(state, predecessor []byte) error // arrays of one; only if it links them
}

type typedStates[S any] struct{ aggregate Aggregate[S] }

func newStates[S any](a Aggregate[S]) states { return &typedStates[S]{a} }

func (t *typedStates[S]) layout() (size, align uint32) {
	var s S
	return uint32(unsafe.Sizeof(s)), uint32(unsafe.Alignof(s))
}

func (t *typedStates[S]) check() string {
	kind := reflect.TypeFor[S]()
	switch {
	case kind.Size() == 0 || kind.Size() > maxStateBytes:
		return "a state must have 1 to 65536 bytes"
	case plainBytes(kind) != kind.Size():
		return "a state must hold nothing but numbers of fixed size, without padding"
	}
	return ""
}

// plainBytes returns the bytes of a type that are numbers of fixed size.
func plainBytes(t reflect.Type) uintptr {
	switch kind := t.Kind(); {
	case kind == reflect.Array:
		return uintptr(t.Len()) * plainBytes(t.Elem())
	case kind == reflect.Struct:
		total := uintptr(0)
		for i := range t.NumField() {
			total += plainBytes(t.Field(i).Type)
		}
		return total
	case kind == reflect.Int || kind == reflect.Uint || kind == reflect.Uintptr:
		return 0
	case kind >= reflect.Int8 && kind <= reflect.Complex128:
		return t.Size()
	}
	return 0
}

func (t *typedStates[S]) reset(array []byte) {
	list := cells[S](array)
	for i := range list {
		t.aggregate.Reset(&list[i])
	}
}

func (t *typedStates[S]) add(b *Batch, array []byte) error {
	return t.aggregate.Add(b, cells[S](array))
}

func (t *typedStates[S]) merge(dst, src []byte) error {
	into, from := cells[S](dst), cells[S](src)
	for i := range from {
		if err := t.aggregate.Merge(&into[i], &from[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *typedStates[S]) finish(array []byte, i int, dst []byte) ([]byte, error) {
	return t.aggregate.Finish(&cells[S](array)[i], dst)
}

func (t *typedStates[S]) linksPredecessors() bool {
	_, ok := t.aggregate.(PredecessorLinker[S])
	return ok
}

func (t *typedStates[S]) linkPredecessor(state, predecessor []byte) error {
	return t.aggregate.(PredecessorLinker[S]).LinkPredecessor(&cells[S](state)[0],
		&cells[S](predecessor)[0])
}

// resultSize is the size of all results by the document, 0 when they differ.
func resultSize(d *plugin.Doc) uint32 {
	for _, f := range d.Result {
		if f.Repeat || f.Type == plugin.Text {
			return 0
		}
	}
	return uint32(8 * len(d.Result))
}

// paramsMax is the most bytes of parameters by the document.
func paramsMax(d *plugin.Doc) uint32 {
	size := 8 * len(d.Params)
	for _, p := range d.Params {
		size += (p.Size + 7) &^ 7
	}
	return uint32(size)
}
