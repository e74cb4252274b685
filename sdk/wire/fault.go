package wire

import (
	"encoding/json"
	"strings"

	"github.com/pentad-db/pentad/sdk/api"
)

// faultPart is the part of an error whose reason is a fault, as JSON.
const faultPart = "plugin"

// NewFault returns an error that carries a fault.
func NewFault(kind Kind, message string, f api.Fault) *Error {
	f.Message = strings.ToValidUTF8(f.Message, "\uFFFD")
	text, err := json.Marshal(f)
	if err != nil {
		panic("BUG: a fault does not marshal: " + err.Error())
	}
	return &Error{Kind: kind, Message: message, Part: faultPart, Reason: string(text)}
}

// Fault returns the fault that an error carries.
func (e *Error) Fault() (f api.Fault, ok bool) {
	switch e.Kind {
	case KindBadModule, KindPluginFailed, KindPluginLimit:
	default:
		return api.Fault{}, false
	}
	if e.Part != faultPart || json.Unmarshal([]byte(e.Reason), &f) != nil {
		return api.Fault{}, false
	}
	return f, true
}
