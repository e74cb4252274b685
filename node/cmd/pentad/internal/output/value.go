package output

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/timeparse"
)

type kind uint8

const (
	kindNull kind = iota
	kindInt
	kindCount
	kindBytes
	kindFloat
	kindComputed
	kindText
	kindBool
	kindTime
	kindSpan
	kindOpaque
	kindRaw
	kindDeleted
	kindAll
	kindRawPayload
)

// Value is one cell. The zero value is null.
type Value struct {
	kind   kind
	number int64
	float  float64
	text   string
}

// Null is a value that is not there.
func Null() Value { return Value{} }

// Int is a number that names something, as a cid does: never grouped in thousands.
func Int[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n N) Value {
	return Value{kind: kindInt, number: int64(n)}
}

// Count is a number of things: grouped in thousands in a table.
func Count[N ~int | ~int64 | ~uint64 | ~uint32](n N) Value {
	return Value{kind: kindCount, number: int64(n)}
}

// Bytes is a size: with a unit in a table, whole bytes elsewhere.
func Bytes[N ~int | ~int64 | ~uint64](n N) Value {
	return Value{kind: kindBytes, number: int64(n)}
}

// Float is a measured value, written with the fewest digits that read back the same.
func Float(f float64) Value { return Value{kind: kindFloat, float: f} }

// Computed is a number that was computed from measured ones: 7 digits in a table, exact elsewhere.
func Computed(f float64) Value { return Value{kind: kindComputed, float: f} }

// Text is text.
func Text(s string) Value { return Value{kind: kindText, text: s} }

// Bool is true or false.
func Bool(b bool) Value {
	v := Value{kind: kindBool}
	if b {
		v.number = 1
	}
	return v
}

// Time is a point in time. In JSON it becomes two members: NAME in RFC 3339 and NAME_ns in whole
// nanoseconds, because many readers of JSON round the second.
func Time(ns int64) Value { return Value{kind: kindTime, number: ns} }

// LocalTime is a point in time as a clock of its zone shows it. In JSON it becomes two members, as
// Time.
func LocalTime(ns int64, text string) Value { return Value{kind: kindTime, number: ns, text: text} }

// Span is a length of time: with a unit in a table, seconds elsewhere.
func Span(d time.Duration) Value { return Value{kind: kindSpan, number: int64(d)} }

// Raw is a part of JSON that stands for itself.
func Raw(document []byte) Value { return Value{kind: kindRaw, text: string(document)} }

// Deleted stands in place of the payload of a tombstone. In JSON it becomes the member "deleted".
func Deleted() Value { return Value{kind: kindDeleted} }

// All stands for every value: null in JSON, a star elsewhere.
func All() Value { return Value{kind: kindAll} }

// opaque is a payload that does not have the declared type.
func opaque(payload []byte) Value {
	return Value{kind: kindOpaque, number: int64(len(payload)),
		text: base64.StdEncoding.EncodeToString(payload)}
}

// appendMember appends "name":value. Two kinds become two members, so that no reader mistakes
// one for the other.
func (v Value) appendMember(dst []byte, name string) []byte {
	switch v.kind {
	case kindDeleted:
		return append(dst, `"deleted":true`...)
	case kindRawPayload:
		name = strings.TrimSuffix(name, "value") + PayloadColumn(quantity.Type(v.number)).Name
	}
	dst = appendJSONText(dst, name)
	dst = append(dst, ':')
	switch v.kind {
	case kindNull, kindAll:
		return append(dst, "null"...)
	case kindInt, kindCount, kindBytes:
		return strconv.AppendInt(dst, v.number, 10)
	case kindFloat, kindComputed:
		return appendJSONFloat(dst, v.float)
	case kindBool:
		return strconv.AppendBool(dst, v.number != 0)
	case kindSpan:
		return appendJSONFloat(dst, seconds(v.number))
	case kindTime:
		dst = append(dst, '"')
		dst = append(dst, v.time()...)
		dst = append(dst, `",`...)
		dst = appendJSONText(dst, name+"_ns")
		dst = append(dst, ':')
		return strconv.AppendInt(dst, v.number, 10)
	case kindOpaque:
		dst = append(dst, "null,"...)
		dst = appendJSONText(dst, strings.TrimSuffix(name, "value")+"payload")
		dst = append(dst, `:"`...)
		dst = append(dst, v.text...)
		return append(dst, '"')
	case kindRaw:
		return append(dst, v.text...)
	}
	return appendJSONText(dst, v.text)
}

// seconds divides once, so that 2619 ms are 2.619 s; Duration.Seconds adds two rounded numbers.
func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// time is a point in time in RFC 3339.
func (v Value) time() string {
	if v.text != "" {
		return v.text
	}
	return timeparse.Format(v.number)
}

// plain is the value for programs, in CSV.
func (v Value) plain() string {
	switch v.kind {
	case kindNull:
		return ""
	case kindInt, kindCount, kindBytes:
		return strconv.FormatInt(v.number, 10)
	case kindFloat, kindComputed:
		return formatFloat(v.float)
	case kindBool:
		return strconv.FormatBool(v.number != 0)
	case kindSpan:
		return formatFloat(seconds(v.number))
	case kindTime:
		return v.time()
	case kindOpaque:
		return "base64:" + v.text
	case kindRawPayload:
		return quantity.Type(v.number).String() + ":" + v.text
	case kindAll:
		return "*"
	}
	return v.text
}

// people is the value in a table.
func (v Value) people() string {
	switch v.kind {
	case kindCount:
		return Thousands(v.number)
	case kindBytes:
		return Size(v.number)
	case kindComputed:
		return computed(v.float)
	case kindSpan:
		return Duration(time.Duration(v.number))
	case kindTime:
		return strings.Replace(v.time(), "T", " ", 1)
	case kindOpaque:
		return fmt.Sprintf("(%s bytes of another type)", Thousands(v.number))
	case kindRawPayload:
		return v.text
	case kindText:
		return printable(v.text)
	case kindDeleted:
		return "(deleted)"
	}
	return v.plain()
}

// computed rounds to 7 digits and groups the whole part of a number.
func computed(f float64) string {
	const digits = 7
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', digits, 64), 64)
	if err != nil || math.Abs(rounded) >= 1e15 {
		return strconv.FormatFloat(f, 'g', digits, 64)
	}
	text := formatFloat(rounded)
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n == 0 {
		return text
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return Thousands(n) + fraction
}

func formatFloat(f float64) string { return string(appendFloat(nil, f)) }

func appendFloat(dst []byte, f float64) []byte {
	form := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(dst, f, form, -1, 64)
}

// appendJSONFloat writes what JSON has no number for as text.
func appendJSONFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		dst = append(dst, '"')
		dst = appendFloat(dst, f)
		return append(dst, '"')
	}
	return appendFloat(dst, f)
}

func appendJSONText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("BUG: a string is always JSON: " + err.Error())
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// printable keeps a stored text from moving the cursor or colouring the terminal.
func printable(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			quoted := strconv.Quote(s)
			return quoted[1 : len(quoted)-1]
		}
	}
	return s
}

// Thousands groups a number: 4,363,200.
func Thousands[N ~int | ~int64 | ~uint64](n N) string {
	digits := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Counted is a number of things that are named in the plural: 1 record, 4,363,200 records.
func Counted[N ~int | ~int64 | ~uint64](n N, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return Thousands(n) + " " + things
}

// Size writes bytes with a decimal unit: 3.9 KB.
func Size[N ~int | ~int64 | ~uint64](n N) string {
	size := float64(n)
	if size < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	for _, unit := range []string{"KB", "MB", "GB", "TB"} {
		size /= 1000
		if size < 999.95 {
			return fmt.Sprintf("%.1f %s", size, unit)
		}
	}
	return fmt.Sprintf("%.1f PB", size/1000)
}

// Duration writes a length of time with three digits and a unit, or with two units: 212 ms, 3.15 s,
// 2 m 05 s, 3 h 04 m, 68 d 00 h.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return threeDigits(float64(d)/1e3) + " µs"
	case d < time.Second:
		return threeDigits(float64(d)/1e6) + " ms"
	case d < time.Minute:
		return threeDigits(d.Seconds()) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d m %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d >= 100*time.Hour:
		return fmt.Sprintf("%d d %02d h", int(d.Hours())/24, int(d.Hours())%24)
	}
	return fmt.Sprintf("%d h %02d m", int(d.Hours()), int(d.Minutes())%60)
}

func threeDigits(f float64) string {
	switch {
	case f < 9.995:
		return fmt.Sprintf("%.2f", f)
	case f < 99.95:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
