package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// outcomePart is the part of an error whose reason is an outcome, as JSON.
const outcomePart = "put"

// NewOutcome returns an error like e that carries an outcome.
func NewOutcome(e *Error, o api.Outcome) *Error {
	text, err := json.Marshal(o)
	if err != nil {
		panic("BUG: an outcome does not marshal: " + err.Error())
	}
	out := *e
	out.Part, out.Reason = outcomePart, string(text)
	return &out
}

// Outcome returns the outcome that an error carries.
func (e *Error) Outcome() (o api.Outcome, ok bool) {
	if e.Part != outcomePart || json.Unmarshal([]byte(e.Reason), &o) != nil {
		return api.Outcome{}, false
	}
	return o, true
}

// FormatRanges writes ranges of an [api.Outcome].
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
