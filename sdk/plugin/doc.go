// Package plugin is the contract between a pentad node and the modules that users upload: the
// document in which a module describes its parameters and results, and how both are written as
// bytes. ABI.md describes the calls between host and guest.
//
// It imports the standard library only, runs nothing and starts no goroutines. Its main type is
// [Doc].
package plugin

import (
	"encoding/json"
	"fmt"
	"slices"
)

// MaxDocBytes bounds the document of a module.
const MaxDocBytes = 64 << 10

// Limits of a document.
const (
	maxParams     = 32
	maxFields     = 64
	maxLabelBytes = 64    // of a name or a unit
	maxTextBytes  = 60000 // with other parameters it fits into those of a call
)

// Types of parameters and result fields. All but texts take 8 bytes, little-endian; an enum is the
// number of its value.
const (
	F64  = "f64"
	I64  = "i64"
	U64  = "u64"
	Enum = "enum" // of parameters
	Time = "time" // of results: i64, ns since the Unix epoch
	Bool = "bool" // of results: 0 or 1
	Text = "text"
)

// Param is a parameter of a module.
type Param struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`              // F64, I64, U64, Enum or Text
	Enum    []string `json:"enum,omitempty"`    // values of an enum
	Size    int      `json:"size,omitempty"`    // most bytes of a text
	Default string   `json:"default,omitempty"` // empty: the parameter must be given
	Min     string   `json:"min,omitempty"`     // of a number: the least that is allowed
	Max     string   `json:"max,omitempty"`     // and the greatest
	Unit    string   `json:"unit,omitempty"`
	Help    string   `json:"help,omitempty"`
}

// Field is a field of a result.
type Field struct {
	Name string `json:"name"`
	Type string `json:"type"` // F64, I64, U64, Time, Bool or Text
	Unit string `json:"unit,omitempty"`
	// Repeat: the last fields that have it stand there together as often as the result holds.
	Repeat bool `json:"repeat,omitempty"`
	// Fold says what it is of several series, see [Doc.Fold]; empty: results are of one series, or
	// states of several are merged.
	Fold string `json:"fold,omitempty"`
}

// Doc describes a module to people and to programs that ask people.
type Doc struct {
	Name    string   `json:"name"`
	Version string   `json:"version,omitempty"`
	About   string   `json:"about,omitempty"`
	Payload []string `json:"payload,omitempty"` // types of payloads that it reads; see [Doc.Fit]
	Params  []Param  `json:"params,omitempty"`
	Result  []Field  `json:"result,omitempty"`
}

// ParseDoc reads a document that a module's author wrote.
func ParseDoc(src []byte) (*Doc, error) {
	if len(src) > MaxDocBytes {
		return nil, fmt.Errorf("document of %d bytes, at most %d", len(src), MaxDocBytes)
	}
	d := new(Doc)
	if err := json.Unmarshal(src, d); err != nil {
		return nil, fmt.Errorf("document: %w", err)
	}
	if len(d.Params) > maxParams || len(d.Result) > maxFields {
		return nil, fmt.Errorf("document has %d parameters and %d fields, at most %d and %d",
			len(d.Params), len(d.Result), maxParams, maxFields)
	}
	for i := range d.Params {
		if err := d.Params[i].validate(); err != nil {
			return nil, fmt.Errorf("document: parameter %d (%q): %w", i, d.Params[i].Name, err)
		}
	}
	for i, f := range d.Result {
		switch {
		case !label(f.Name) || f.Unit != "" && !label(f.Unit):
			return nil, fmt.Errorf("document: field %d (%q): name and unit are up to %d bytes of "+
				"printable UTF-8", i, f.Name, maxLabelBytes)
		case !slices.Contains([]string{F64, I64, U64, Time, Bool, Text}, f.Type):
			return nil, fmt.Errorf("document: field %d (%q) has type %q", i, f.Name, f.Type)
		case i > 0 && d.Result[i-1].Repeat && !f.Repeat:
			return nil, fmt.Errorf("document: field %d (%q) follows one that repeats and does not "+
				"repeat", i, f.Name)
		}
	}
	if err := d.checkFolds(); err != nil {
		return nil, err
	}
	return d, nil
}

// label reports whether a text can head a column.
func label(s string) bool {
	return s != "" && len(s) <= maxLabelBytes && OneLine(s)
}
