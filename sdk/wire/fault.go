package wire

import (
	"encoding/json"
	"strings"

	"github.com/pentad-db/pentad/sdk/record"
)

// Fault is what a plugin did wrong. It travels in an [Error] of kind KindBadModule,
// KindPluginFailed or KindPluginLimit.
type Fault struct {
	Plugin string `json:"plugin,omitempty"` // as the node or, in an upload, the module calls it
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

// KeyOfFault returns a key as a fault has it.
func KeyOfFault(k record.Key) *FaultKey {
	return &FaultKey{CID: k.CID, MID: k.MID, MOID: k.MOID, CapNs: k.CapNs, AcqNs: k.AcqNs}
}

// Key returns the key of the record.
func (k *FaultKey) Key() record.Key {
	return record.Key{CID: k.CID, MID: k.MID, MOID: k.MOID, CapNs: k.CapNs, AcqNs: k.AcqNs}
}

// faultPart is the part of an error whose reason is a fault, as JSON.
const faultPart = "plugin"

// NewFault returns an error that carries a fault.
func NewFault(kind Kind, message string, f Fault) *Error {
	f.Message = strings.ToValidUTF8(f.Message, "\uFFFD")
	text, err := json.Marshal(f)
	if err != nil {
		panic("BUG: a fault does not marshal: " + err.Error())
	}
	return &Error{Kind: kind, Message: message, Part: faultPart, Reason: string(text)}
}

// Fault returns the fault that an error carries.
func (e *Error) Fault() (f Fault, ok bool) {
	switch e.Kind {
	case KindBadModule, KindPluginFailed, KindPluginLimit:
	default:
		return Fault{}, false
	}
	if e.Part != faultPart || json.Unmarshal([]byte(e.Reason), &f) != nil {
		return Fault{}, false
	}
	return f, true
}
