package record

import "time"

// FormatNs writes nanoseconds since the Unix epoch as RFC 3339 with all nine decimals, in UTC.
func FormatNs(ns int64) string {
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
}
