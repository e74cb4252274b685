package api

// Event is an erase, a purge, or the present step of a retention. It affects the records in its box
// with an acq below its own.
type Event struct {
	Kind  string            `json:"kind"` // "erase", "purge" or "retention"
	Acq   string            `json:"acq"`
	AcqNs int64             `json:"acq_ns"`
	Box   map[string]string `json:"box"` // selectors by dimension, without those that select all
	// Done: no file contains such a record any more. Removed: how many are gone so far. Both are
	// of a purge, and nil otherwise.
	Done    *bool   `json:"done"`
	Removed *uint64 `json:"removed"`
	// Slots are those [from, to) of the cluster group that has the event; nil: all devices.
	Slots   []uint32 `json:"slots,omitempty"`
	Removal *Removal `json:"removal,omitempty"` // of a retention
}

// Removal is what happens to the records that a retention hides. While it is held, times are nil
// and 0.
type Removal struct {
	Records uint64  `json:"records"` // that are stored, about
	Bytes   uint64  `json:"bytes"`   // of them in files, about
	Next    *string `json:"next"`
	NextNs  int64   `json:"next_ns,omitempty"` // when the first of them may be removed
	Done    *string `json:"done"`
	DoneNs  int64   `json:"done_ns,omitempty"` // when all their bytes are gone, at the latest
}

// Events is the answer of GET /v1/events.
type Events struct {
	Events []Event `json:"events"` // oldest first
}

// Retention is how long the records of a tenant and quantity are kept.
type Retention struct {
	CID         *int32 `json:"cid"`                  // nil: all tenants
	MOID        *int32 `json:"moid"`                 // nil: all quantities
	MaxCapAgeNs int64  `json:"cap_age_ns,omitempty"` // since capture; 0: any
	MaxAcqAgeNs int64  `json:"acq_age_ns,omitempty"` // since acquisition; 0: any
	// DelayNs is how long expired records are hidden before their bytes may be removed; 0: a tenth
	// of the age, between an hour and three days. Until then a longer age, the removal of the
	// policy, or an undo, shows them again.
	DelayNs int64 `json:"delay_ns,omitempty"`
	Held    bool  `json:"held,omitempty"` // it takes no steps; ignored when a policy is set
	// Groups of a cluster that have it, if not all do: setting it was interrupted. Set it again.
	Groups []int `json:"groups,omitempty"`
}

// Policies is the answer of GET /v1/retention.
type Policies struct {
	Policies []Retention `json:"policies"` // by tenant and quantity
}
