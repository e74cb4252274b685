package record

import "time"

// FormatNs writes nanoseconds since the Unix epoch as RFC 3339 with all nine decimals, in UTC.
func FormatNs(ns int64) string { return string(AppendNs(nil, ns)) }

// AppendNs appends what [FormatNs] returns.
func AppendNs(dst []byte, ns int64) []byte {
	t := time.Unix(0, ns).UTC()
	// The layout of which package time has a fast way; the decimals take the place of its Z.
	dst = t.AppendFormat(dst, time.RFC3339)
	at, fraction := len(dst)-1, t.Nanosecond()
	dst = append(dst[:at], ".000000000Z"...)
	for i := at + 9; fraction > 0; i-- {
		dst[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	return dst
}
