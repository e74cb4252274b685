package api

import "github.com/pentad-db/pentad/sdk/record"

// Fault is what a plugin did wrong. It is also a part of an error frame.
type Fault struct {
	Plugin string `json:"plugin,omitempty"` // its name on the node or, in an upload, its own
	SHA256 string `json:"sha256"`
	Export string `json:"export,omitempty"` // that was called
	// What is refused, trap, fuel, memory, status, output or limit.
	What        string `json:"what"`
	Status      int32  `json:"status,omitempty"`       // that the plugin returned
	FuelUsed    uint64 `json:"fuel_used,omitempty"`    // by the call
	MemoryBytes uint64 `json:"memory_bytes,omitempty"` // of the instance
	Message     string `json:"message,omitempty"`      // the plugin's own words
	// Records is how many records the call got, from First to Last. With Exact both are the one
	// that the plugin fails at.
	Records int       `json:"records,omitempty"`
	First   *FaultKey `json:"first,omitempty"`
	Last    *FaultKey `json:"last,omitempty"`
	Exact   bool      `json:"exact,omitempty"`
}

// FaultKey is the key of a record in a [Fault].
type FaultKey struct {
	CID   int32 `json:"cid"`
	MID   int64 `json:"mid"`
	MOID  int32 `json:"moid"`
	CapNs int64 `json:"cap_ns"`
	AcqNs int64 `json:"acq_ns"`
}

// KeyOfFault returns a key in the form of a fault.
func KeyOfFault(k record.Key) *FaultKey {
	return &FaultKey{CID: k.CID, MID: k.MID, MOID: k.MOID, CapNs: k.CapNs, AcqNs: k.AcqNs}
}

// Key returns the key of the record.
func (k *FaultKey) Key() record.Key {
	return record.Key{CID: k.CID, MID: k.MID, MOID: k.MOID, CapNs: k.CapNs, AcqNs: k.AcqNs}
}

// Outcome is what is known of the records of a put that failed. Ranges number the records of the
// put, or the lines of a body of JSON, from 1: "1-20,25". Unknown records may be stored now or
// later. Sent again under the same writer and sequence, or with the key, each is stored once. It
// is also a part of an error frame.
type Outcome struct {
	Stored    string `json:"stored,omitempty"`
	NotStored string `json:"not_stored,omitempty"`
	Unknown   string `json:"unknown,omitempty"`
	// Key makes it safe to send all of it again, as the header Idempotency-Key of JSON.
	Key string `json:"idempotency_key,omitempty"`
}
