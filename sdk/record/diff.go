package record

import "fmt"

// DiffKind says what became of a reading between two acqs. The values are part of the wire
// format.
type DiffKind uint8

// Kinds of differences.
const (
	DiffAdded   DiffKind = 1 // there was none, and there is one
	DiffChanged DiffKind = 2 // its payload is another one
	DiffDeleted DiffKind = 3 // there was one, and there is none
)

// String returns the name that the kind has in JSON and on the command line.
func (k DiffKind) String() string {
	switch k {
	case DiffAdded:
		return "added"
	case DiffChanged:
		return "changed"
	case DiffDeleted:
		return "deleted"
	}
	return fmt.Sprintf("diff-%d", uint8(k))
}

// Difference is what became of one reading. Old and New share all of their key but acq. Old is zero
// when the reading was added. When it was deleted, New is a tombstone with the acq of what deleted
// it: a tombstone that was put, or an erase.
type Difference struct {
	Kind     DiffKind
	Old, New Record
}

// Differences are differences of one kind, as many as New has records. Old has as many, or none
// when readings were added.
type Differences struct {
	Kind     DiffKind
	Old, New Batch
}

// Len returns the number of differences.
func (d *Differences) Len() int { return d.New.Len() }

// At returns difference i, aliasing the batches.
func (d *Differences) At(i int) Difference {
	out := Difference{Kind: d.Kind, New: d.New.Record(i)}
	if d.Kind != DiffAdded {
		out.Old = d.Old.Record(i)
	}
	return out
}

// Reset empties the batches and keeps their memory.
func (d *Differences) Reset() {
	d.Old.Reset()
	d.New.Reset()
}

// Diff asks what became of the readings in a box between the state as of FromNs and the state as of
// ToNs, both acquisition times.
type Diff struct {
	Box          Box // without acq
	FromNs, ToNs int64
	// Select chooses devices of one tenant as that of a [Query], by their descriptions as of ToNs.
	Select string
}

// Normalize checks the diff and brings its box into the form that [Query.Normalize] describes.
// The error is an [*InvalidError].
func (d *Diff) Normalize() error {
	if err := d.Box.NormalizeAsked(); err != nil {
		return err
	}
	switch {
	case len(d.Box[Acq]) > 0:
		return invalid("acq", Inconsistent, "a diff is between two acqs; leave the "+
			"range out")
	case d.FromNs > d.ToNs:
		return invalid("to", ReversedRange, "%d lies before %d, from which the diff is asked",
			d.ToNs, d.FromNs)
	}
	return NormalizeSelect(&d.Select, &d.Box)
}

// Version is one of the versions of a reading, and what became of it.
type Version struct {
	Record
	// HiddenAcqNs is the acq of the oldest erase that hides the version, 0 for none.
	HiddenAcqNs int64
	// Latest says that this is what the latest view resolves to; when it is a tombstone, the
	// reading is deleted. No version of an erased reading is.
	Latest bool
}
