package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/sdk/record"
)

// Outcome is what is known of the records of a put that failed. Ranges number the records of the
// put, or the lines of a body of JSON, from 1: "1-20,25". What is unknown may be stored, or may
// be later. Sent again under the same writer and sequence, or with the key, each is stored once.
type Outcome struct {
	Stored    string `json:"stored,omitempty"`
	NotStored string `json:"not_stored,omitempty"`
	Unknown   string `json:"unknown,omitempty"`
	// Key makes it safe to send all of it again, as the header Idempotency-Key of JSON.
	Key string `json:"idempotency_key,omitempty"`
}

// outcomePart is the part of an error whose reason is an outcome, as JSON.
const outcomePart = "put"

// NewOutcome returns an error like e that carries an outcome.
func NewOutcome(e *Error, o Outcome) *Error {
	text, err := json.Marshal(o)
	if err != nil {
		panic("BUG: an outcome does not marshal: " + err.Error())
	}
	out := *e
	out.Part, out.Reason = outcomePart, string(text)
	return &out
}

// Outcome returns the outcome that an error carries.
func (e *Error) Outcome() (o Outcome, ok bool) {
	if e.Part != outcomePart || json.Unmarshal([]byte(e.Reason), &o) != nil {
		return Outcome{}, false
	}
	return o, true
}

// FormatRanges writes ranges of an [Outcome].
func FormatRanges(set record.RangeSet) string {
	var parts []string
	for _, r := range set {
		if r.To == r.From+1 {
			parts = append(parts, fmt.Sprint(r.From))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", r.From, r.To-1))
		}
	}
	return strings.Join(parts, ",")
}
