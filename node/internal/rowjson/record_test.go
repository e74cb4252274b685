package rowjson

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestRecordIsItsRow: a record is written as its row, in every form and of every type.
func TestRecordIsItsRow(t *testing.T) {
	var payloads [][]byte
	for _, f := range []float64{0, math.Copysign(0, -1), 21.5, -1e-6, 9.9e-7, 1e-9, 1e-300, 1e20,
		1e21, -1.7e308, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1),
		math.Inf(-1), 0.1} {
		payloads = append(payloads, binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)),
			binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f))))
	}
	for _, text := range []string{"", "x", "ab,c", "\"q\"\n", "<b>&", " \u2028 ", "\xff\xfe",
		`\.`} {
		payloads = append(payloads, []byte(text))
	}
	times := []int64{0, 1, -1, 1_772_539_200_000_000_000, 1_772_539_200_123_456_789,
		math.MinInt64, math.MaxInt64 - 1}
	for form := Document; form <= CSV; form++ {
		for kind := quantity.Base64; kind <= quantity.U32; kind++ {
			for _, keys := range []bool{false, true} {
				var got, want bytes.Buffer
				a := Writer{W: bufio.NewWriter(&got), Format: form, Name: "records"}
				b := Writer{W: bufio.NewWriter(&want), Format: form, Name: "records"}
				err := errors.Join(a.Begin(Row{}), b.Begin(Row{}))
				for i, payload := range payloads {
					r := record.Record{Key: record.Key{CID: int32(i), MID: -1 << 62, MOID: -5,
						CapNs: times[i%len(times)], AcqNs: times[(i+3)%len(times)]},
						Payload: payload}
					if r.Tomb = i%7 == 6; r.Tomb {
						r.Payload = nil
					}
					err = errors.Join(err, a.Record(&r, kind, keys),
						b.Row(RowOfRecord(&r, kind, keys)))
				}
				if err = errors.Join(err, a.W.Flush(), b.W.Flush()); err != nil {
					t.Fatal(err)
				}
				if got.String() != want.String() || a.Rows != b.Rows {
					t.Errorf("form %d, %s, keys %v:\n%s\nwant\n%s", form, kind, keys, &got, &want)
				}
			}
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	r := record.Record{Key: record.Key{CID: 1, MID: 4_000_000_042, MOID: 7,
		CapNs: 1_772_539_200_123_456_789, AcqNs: 1_772_539_201_123_456_789},
		Payload: binary.LittleEndian.AppendUint64(nil, math.Float64bits(21.5))}
	for _, form := range []Format{Lines, CSV} {
		for _, kind := range []quantity.Type{quantity.F64, quantity.Base64} {
			b.Run(form.ContentType()+"/"+kind.String(), func(b *testing.B) {
				o := Writer{W: bufio.NewWriter(io.Discard), Format: form}
				b.ReportAllocs()
				for b.Loop() {
					if err := o.Record(&r, kind, false); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
