package record

import "math"

// The 16 lowest moids are reserved for records that describe devices, quantities and tenants, which
// are otherwise as all others are. Queries that do not restrict moid do not see them; see
// [Query.Normalize]. The lowest one was in use before they were: for gap records of edge nodes.
const (
	// NameMOID is the moid of records by which an id claims a name.
	NameMOID = math.MinInt32 + 1
	// IDBlockMOID is the moid of records that claim a block of ids.
	IDBlockMOID = math.MinInt32 + 2
	// DescriptionMOID is the moid of descriptions of devices: the device is the mid, and cap is the
	// time from which the description holds.
	DescriptionMOID = math.MinInt32 + 3
	// DeviceNameMOID is the moid of records that say at a device, which is the mid, what became of
	// its name: another one, or none.
	DeviceNameMOID = math.MinInt32 + 4
	// FirstMOID is the least moid that is not reserved. Those between are for later uses.
	FirstMOID = math.MinInt32 + 16
)

// TenantsCID is the tenant, the highest one, in which names of tenants are claimed: by the id
// FirstGivenID + cid.
const TenantsCID = math.MaxInt32 - 1

// IsReservedMOID reports whether a moid is one of those that are reserved.
func IsReservedMOID(moid int32) bool { return moid < FirstMOID }

// Everything returns the box of all records, reserved moids included, in the form that queries keep
// as it is.
func Everything() (x Box) {
	x.IncludeReserved()
	return x
}

// IncludeReserved makes a query for the box see reserved moids, too, unless the box restricts moid:
// for what must not miss a record, e.g. a copy.
func (x *Box) IncludeReserved() {
	if len(x[MOID]) == 0 {
		x[MOID] = RangeSet{All(MOID)}
	}
}

// NormalizeAsked is [Box.Normalize] for a box that a client asks with, or chooses records with to
// erase them: an empty set of moids becomes all that are not reserved.
func (x *Box) NormalizeAsked() error {
	if err := x.Normalize(); err != nil {
		return err
	}
	if len(x[MOID]) == 0 {
		x[MOID] = RangeSet{{FirstMOID, MOID.Max()}}
	}
	return nil
}

// Asked returns the set of a dimension as clients write it, which aliases the box: empty if they
// need not, also where it is all moids that are not reserved.
func (x *Box) Asked(d Dim) RangeSet {
	if set := x[d]; d != MOID || len(set) != 1 || set[0] != (Range{FirstMOID, MOID.Max()}) {
		return set
	}
	return nil
}

// Restricts reports whether a normalized box leaves out values of a dimension other than reserved
// moids.
func (x *Box) Restricts(d Dim) bool {
	set := x.Asked(d)
	return len(set) > 1 || len(set) == 1 && set[0] != All(d)
}
