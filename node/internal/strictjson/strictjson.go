// Package strictjson reads a JSON value and refuses what encoding/json would leave aside.
//
// It owns no state and starts no goroutines. It does not read streams: a text is one value. It is
// encoding/json/v2 with the names of members as version 1 takes them, and errors in terms of JSON;
// once that is part of the standard library by default, it takes the place of the module.
package strictjson

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Unmarshal reads a text that is one JSON value in UTF-8. It refuses members that into does not
// have, text that follows the value, and a key that is twice in one object, of which encoding/json
// takes the last. Upper and lower case are one, as to encoding/json.
//
// Errors: *DoubledKeyError; *UnknownFieldError; *TypeError; those of the syntax.
func Unmarshal(src []byte, into any) error {
	_, err := UnmarshalAt(src, into)
	return err
}

// UnmarshalAt is Unmarshal that returns where in the text an error is, from 0 on.
//
// Errors: those of Unmarshal.
func UnmarshalAt(src []byte, into any) (offset int64, err error) {
	err = json.Unmarshal(src, into, json.RejectUnknownMembers(true),
		json.MatchCaseInsensitiveNames(true), jsonv1.MatchCaseSensitiveDelimiter(true))
	var syntax *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.ByteOffset
	case errors.As(err, &wrong):
		offset = wrong.ByteOffset
	}
	return offset, plain(err)
}

// UnmarshalKnown is Unmarshal that leaves aside members which into does not have.
func UnmarshalKnown(src []byte, into any) error {
	return plain(json.Unmarshal(src, into, json.MatchCaseInsensitiveNames(true),
		jsonv1.MatchCaseSensitiveDelimiter(true)))
}

// DoubledKeyError is of a key that is twice in one object.
type DoubledKeyError struct{ Key string }

// Error implements error.
func (e *DoubledKeyError) Error() string {
	return fmt.Sprintf("the key %.80q occurs twice; remove one", e.Key)
}

// UnknownFieldError is of a member that is not known.
type UnknownFieldError struct{ Name string }

// Error implements error.
func (e *UnknownFieldError) Error() string { return fmt.Sprintf("unknown field %.80q", e.Name) }

// TypeError is of a value that is not what its member takes.
type TypeError struct {
	Member string // path with dots; empty: the whole value
	Value  string // e.g. number 5, string, object
	Type   string // that the member takes: array, object, or a type of Go
}

// Error implements error.
func (e *TypeError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("a JSON object is expected, this is a JSON %s", e.Value)
	}
	return fmt.Sprintf("%s: %s is not a valid %s", e.Member, e.Value, e.Type)
}

// plain returns an error in terms of JSON instead of Go.
func plain(err error) error {
	var syntax *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return plainSyntax(syntax)
	case !errors.As(err, &wrong):
		return err
	case errors.Is(wrong.Err, json.ErrUnknownName):
		return &UnknownFieldError{wrong.JSONPointer.LastToken()}
	case wrong.GoType == nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	value := kindName(wrong.JSONKind)
	if wrong.JSONKind == '0' && len(wrong.JSONValue) > 0 {
		value = strings.TrimSpace(fmt.Sprintf("number %.40s", wrong.JSONValue))
	}
	member := strings.ReplaceAll(strings.TrimPrefix(string(wrong.JSONPointer), "/"), "/", ".")
	return &TypeError{Member: member, Value: value, Type: typeName(wrong.GoType)}
}

// typeName names what a member takes as JSON does, where that says as much as the type of Go.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return t.String()
}

func plainSyntax(err *jsontext.SyntacticError) error {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &DoubledKeyError{err.JSONPointer.LastToken()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case strings.HasSuffix(err.Err.Error(), "after top-level value"):
		return errors.New("text follows the JSON value")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
}
