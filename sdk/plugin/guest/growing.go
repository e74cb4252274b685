package guest

import "github.com/pentad-db/pentad/sdk/plugin"

// Growing folds records into states that own memory: maps, slices, sketches without a greatest
// size. They live in the instance and go to others as the bytes of Save.
type Growing[S any] interface {
	// Describe is asked like that of [Aggregate]; plugin.FlagGrows is added.
	Describe() Description
	// Init takes the parameters, once, before the other methods but Describe.
	Init(Params) error
	// Reset makes a state that has seen no records, from the zero value of S.
	Reset(*S)
	// Add folds row i of the batch into the state of its group.
	Add(b *Batch, states States[S]) error
	// Save appends what Load needs of a state to dst, at most 1 MiB, and leaves the state as it is.
	Save(s *S, dst []byte) ([]byte, error)
	// Load folds what Save wrote, maybe in another instance, into a state, fresh or not. It keeps
	// nothing of src.
	Load(s *S, src []byte) error
	// Finish appends the result of a state to dst, like that of [Aggregate].
	Finish(s *S, dst []byte) ([]byte, error)
}

// RegisterGrowing makes g the module's aggregate. Call it as [RegisterAggregate].
func RegisterGrowing[S any](g Growing[S]) struct{} {
	registered.setGrowing(newGrowing(g), g)
	return struct{}{}
}

// States are the states of a call.
type States[S any] struct {
	heads []uint32 // of each group, the number of its state
	all   []*S
}

// Len returns the number of groups.
func (s States[S]) Len() int { return len(s.heads) }

// At returns the state of a group. It stays where it is as long as the instance lives.
func (s States[S]) At(group uint32) *S { return s.all[s.heads[group]] }

// growing is what states that grow have beside those of [states].
type growing interface {
	states
	save(array, dst []byte) ([]byte, error)
	load(array, src []byte) error
}

// growingStates keeps the states where Go's collector sees them. What the host moves about is
// their numbers.
type growingStates[S any] struct {
	aggregate Growing[S]
	all       []*S
}

func newGrowing[S any](g Growing[S]) growing { return &growingStates[S]{aggregate: g} }

func (t *growingStates[S]) layout() (size, align uint32) { return 4, 4 }

func (t *growingStates[S]) check() string { return "" }

func (t *growingStates[S]) reset(array []byte) {
	heads := cells[uint32](array)
	for i := range heads {
		heads[i] = uint32(len(t.all))
		s := new(S)
		t.aggregate.Reset(s)
		t.all = append(t.all, s)
	}
}

func (t *growingStates[S]) at(array []byte, i int) *S { return t.all[cells[uint32](array)[i]] }

func (t *growingStates[S]) add(b *Batch, array []byte) error {
	return t.aggregate.Add(b, States[S]{cells[uint32](array), t.all})
}

func (t *growingStates[S]) merge(_, _ []byte) error {
	return &Error{plugin.StatusUnsupported, "states that grow are merged by loading them"}
}

func (t *growingStates[S]) finish(array []byte, i int, dst []byte) ([]byte, error) {
	return t.aggregate.Finish(t.at(array, i), dst)
}

func (t *growingStates[S]) save(array, dst []byte) ([]byte, error) {
	return t.aggregate.Save(t.at(array, 0), dst)
}

func (t *growingStates[S]) load(array, src []byte) error {
	return t.aggregate.Load(t.at(array, 0), src)
}

func (t *growingStates[S]) linksPredecessors() bool {
	_, ok := t.aggregate.(PredecessorLinker[S])
	return ok
}

func (t *growingStates[S]) linkPredecessor(state, predecessor []byte) error {
	return t.aggregate.(PredecessorLinker[S]).LinkPredecessor(t.at(state, 0), t.at(predecessor, 0))
}
