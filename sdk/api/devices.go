package api

import "encoding/json"

// Device is a device with the description that holds.
type Device struct {
	CID        int32          `json:"cid"`
	MID        int64          `json:"mid"`
	Name       string         `json:"name"`
	Type       string         `json:"type,omitempty"`
	Group      string         `json:"group,omitempty"`
	Place      *Place         `json:"place,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"` // texts, numbers and booleans
	Metadata   string         `json:"metadata,omitempty"`
	Retired    bool           `json:"retired"`
	Replaces   int64          `json:"replaces,omitempty"`    // a mid
	ReplacedBy int64          `json:"replaced_by,omitempty"` // a mid
	// From is the time from which the description holds; absent without one.
	From   string `json:"from,omitempty"`
	FromNs *int64 `json:"from_ns,omitempty"`
	// AcqNs is that of the newest of its descriptions, for conditional changes; of one device only.
	AcqNs *int64 `json:"acq_ns,omitempty"`
}

// Place is a place on the earth, in degrees north and east and in metres.
type Place struct {
	Lat float64  `json:"lat"`
	Lon float64  `json:"lon"`
	Alt *float64 `json:"alt,omitempty"`
}

// Devices is a page of devices by name.
type Devices struct {
	Devices []Device `json:"devices"`
	Next    string   `json:"next,omitempty"` // where the next page begins; absent: there is none
}

// DeviceChange is what becomes of a description. A member that is absent stays as it was, or is
// removed where all is replaced; null removes.
type DeviceChange struct {
	Name       string                     `json:"name,omitempty"` // of one device: its new name
	Type       json.RawMessage            `json:"type,omitempty"`
	Group      json.RawMessage            `json:"group,omitempty"`
	Place      json.RawMessage            `json:"place,omitempty"` // a Place
	Attributes map[string]json.RawMessage `json:"attributes,omitempty"`
	Metadata   json.RawMessage            `json:"metadata,omitempty"`
	Retired    json.RawMessage            `json:"retired,omitempty"`
	From       string                     `json:"from,omitempty"` // when it holds; default: now
}

// DeviceRemoved is a device whose name and descriptions were removed.
type DeviceRemoved struct {
	CID          int32  `json:"cid"`
	MID          int64  `json:"mid"`
	Removed      string `json:"removed"` // its name
	Descriptions int    `json:"descriptions"`
	// Of a purge: records of readings, of all versions, and the names that the device has or had.
	Records *uint64  `json:"records,omitempty"`
	Names   []string `json:"names,omitempty"`
	DryRun  bool     `json:"dry_run,omitempty"` // nothing was removed
}
