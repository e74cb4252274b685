package httpapi

import (
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// written is the answer to a put of records in JSON.
type written struct {
	Acq       string     `json:"acq"` // of the last record
	AcqNs     int64      `json:"acq_ns"`
	Duplicate bool       `json:"duplicate"` // all of it was stored before under the same key
	Rejected  int        `json:"rejected"`
	Rejects   []rejected `json:"rejects"` // the first of them
	Written   int        `json:"written"`
}

type rejected struct {
	Line    int    `json:"line"` // of the body; of an array, the number of the record
	Message string `json:"message"`
}

// devicesChanged is the answer to many changes of devices.
type devicesChanged struct {
	Created   int        `json:"created"` // names that had no id
	Described int        `json:"described"`
	Unchanged int        `json:"unchanged"`
	Rejected  int        `json:"rejected"`
	Rejects   []rejected `json:"rejects"` // the first of them
}

// counted is the answer to a count.
type counted struct {
	End     rowjson.End `json:"end"`
	Records uint64      `json:"records"`
}

// hidden is the answer to an erase or a purge: it affects records with an acq below.
type hidden struct {
	Acq   string `json:"acq"`
	AcqNs int64  `json:"acq_ns"`
}

// heldAction is the answer to an action on retention policies.
type heldAction struct {
	Action string `json:"action"`
}

type removedName struct {
	Removed string `json:"removed"` // name
}

type removedMOID struct {
	Removed int32 `json:"removed"` // number of the quantity
}

// declaration is a quantity whose number is in the path of the request.
type declaration struct {
	plugin.Quantity
	MOID int32 `json:"moid,omitzero"`
}

type quantities struct {
	Quantities []plugin.Quantity `json:"quantities"`
}

// digestAnswer is the checksum of the records of a box.
type digestAnswer struct {
	Bytes    uint64 `json:"bytes"`
	PurgedNs int64  `json:"purged_acq_ns"`
	Rows     uint64 `json:"rows"`
	Sum      string `json:"sum"` // in hex
	UntilNs  int64  `json:"until_acq_ns"`
}

// syncAnswer is the state of a store, and of what it is a copy.
type syncAnswer struct {
	Box       map[string]string `json:"box"`
	Of        string            `json:"copy_of"`
	Empty     bool              `json:"empty"`
	Events    int               `json:"events"`
	Groups    int               `json:"groups"`
	Horizon   string            `json:"horizon"`
	HorizonNs int64             `json:"horizon_ns"`
	Policies  int               `json:"policies"`
	Store     string            `json:"store"`
}

type versionAnswer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Commit  string `json:"commit"` // of the source; "": unknown
}

// group has the members of what [rowjson.Group] returns.
type group struct {
	CID     int32          `json:"cid,omitempty"`
	MID     int64          `json:"mid,omitempty"`
	MOID    int32          `json:"moid,omitempty"`
	Records uint64         `json:"records"`
	Result  map[string]any `json:"result"` // as the plugin describes it
}

// bucket is a group of an answer by time spans.
type bucket struct {
	group
	Cap   string `json:"cap,omitempty"`
	CapNs int64  `json:"cap_ns,omitempty"`
}

// window is a group of an answer by windows of a calendar.
type window struct {
	group
	Start   string  `json:"start"`
	StartNs int64   `json:"start_ns"`
	Hours   float64 `json:"hours"`
}

type grouped struct {
	End    rowjson.End `json:"end"`
	Groups []bucket    `json:"groups"`
}

type windowed struct {
	End     rowjson.End `json:"end"`
	Windows []window    `json:"windows"`
}
