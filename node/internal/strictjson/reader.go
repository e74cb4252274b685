package strictjson

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads objects, one after another, without memory for each. It is not for many goroutines.
type Reader struct {
	in      bytes.Buffer
	decoder *jsontext.Decoder
	name    []byte
}

// Object reads a text that is one object and calls visit with each member: its name, and its value
// as JSON. Both are valid during the call. A name that is twice in one object is an error, if it is
// written the same.
//
// Errors: that of visit; *DoubledKeyError; *TypeError for another value; those of the syntax.
func (r *Reader) Object(src []byte, visit func(name, value []byte) error) error {
	r.in = *bytes.NewBuffer(src)
	if r.decoder == nil {
		r.decoder = jsontext.NewDecoder(&r.in)
	} else {
		r.decoder.Reset(&r.in)
	}
	switch opening, err := r.decoder.ReadToken(); {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return plain(err)
	case opening.Kind() != '{':
		return &TypeError{Value: kindName(opening.Kind())}
	}
	for r.decoder.PeekKind() != '}' {
		quoted, err := r.decoder.ReadValue()
		if err != nil {
			return plain(err)
		}
		// It is valid until the decoder reads on.
		if r.name, err = AppendText(r.name[:0], "", quoted); err != nil {
			return plain(err)
		}
		value, err := r.decoder.ReadValue()
		if err != nil {
			return plain(err)
		}
		if err := visit(r.name, value); err != nil {
			return err
		}
	}
	if _, err := r.decoder.ReadToken(); err != nil {
		return plain(err)
	}
	if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON value")
	}
	return nil
}

// Plain reports whether a JSON value is a string without escapes, whose text is what is between the
// quotes.
func Plain(value []byte) bool { return value[0] == '"' && bytes.IndexByte(value, '\\') < 0 }

// AppendText appends the text of a JSON value that is a string.
//
// Errors: *TypeError.
func AppendText(dst []byte, member string, value []byte) ([]byte, error) {
	if Plain(value) {
		return append(dst, value[1:len(value)-1]...), nil
	}
	if value[0] != '"' {
		return dst, WrongType(member, value, "string")
	}
	return jsontext.AppendUnquote(dst, value)
}

// WrongType returns the error of a JSON value that is not of the type of its member.
func WrongType(member string, value []byte, wants string) *TypeError {
	kind := jsontext.Value(value).Kind()
	text := kindName(kind)
	if kind == '0' {
		text += " " + string(value[:min(len(value), 40)])
	}
	return &TypeError{Member: member, Value: text, Type: wants}
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	}
	return kind.String()
}
