package exchange

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// FuzzRead wants every text to end in records that a node takes, or in an error.
func FuzzRead(f *testing.F) {
	var b record.Batch
	b.AppendStamped(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4, AcqNs: 5}, []byte("a,\"b\"\n"))
	b.AppendStampedTomb(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: -4, AcqNs: 6})
	text, err := NewValue("text")
	if err != nil {
		f.Fatal(err)
	}
	for _, values := range [][]Value{nil, {text}} {
		var lines, csv bytes.Buffer
		for _, w := range []Writer{NewNDJSONWriter(&lines, &Header{Version: Version}, values),
			NewCSVWriter(&csv, values, nil)} {
			if err := errors.Join(w.Write(&b), w.Close()); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(lines.Bytes(), true)
		f.Add(csv.Bytes(), false)
	}
	f.Fuzz(func(t *testing.T, file []byte, lines bool) {
		in := bufio.NewReader(bytes.NewReader(file))
		var r Reader
		var err error
		if lines {
			r, _, err = NewNDJSONReader(in)
		} else {
			r, err = NewCSVReader(in, func(_ record.Dim, cid int32, text string) (int64, error) {
				return int64(cid) + int64(len(text)), nil
			})
		}
		var b record.Batch
		for err == nil {
			if err = r.Next(&b); err == nil {
				if err := b.Validate(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !errors.Is(err, io.EOF) && !errors.As(err, new(*DamageError)) &&
			!errors.As(err, new(*FormatError)) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}
