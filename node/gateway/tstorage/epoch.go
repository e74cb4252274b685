package tstorage

import (
	"fmt"
	"math"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// epochNs is how long before the protocol's epoch, 2001-01-01T00:00:00 UTC, the Unix epoch lies.
const epochNs = 978_307_200 * 1_000_000_000

// Both sides reserve the greatest int64, so adding the epoch would put one time that clients may
// store, edge, on pentad's reserved maximum, and leave one free, spare, where the protocol's
// reserved maximum would go. Edge is kept at spare; every other time is shifted, around the end of
// int64 where need be. So each time that one side can hold has one of the other.
const (
	edge  = math.MaxInt64 - epochNs
	spare = math.MinInt64 + epochNs - 1
)

// toUnix turns a time of the protocol into ns since the Unix epoch.
func toUnix(ns int64) int64 {
	if ns == edge {
		return spare
	}
	return ns + epochNs
}

// fromUnix is the inverse of toUnix.
func fromUnix(ns int64) int64 {
	if ns == spare {
		return edge
	}
	return ns - epochNs
}

// formatTime writes a time of the protocol as errors and log lines have it, and as the client knows
// it: years 1708 to 2293, for every int64.
func formatTime(ns int64) string {
	t := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ns))
	return fmt.Sprintf("%s (%d ns since 2001)", t.Format("2006-01-02T15:04:05.000000000Z07:00"), ns)
}

// unixRanges maps [from, to) of the protocol, which must not be empty, to the ranges that hold the
// same times: up to three, where the shift wraps around.
func unixRanges(from, to int64) record.RangeSet {
	var out record.RangeSet
	if from < edge {
		out = append(out, record.Range{From: from + epochNs, To: min(to, edge) + epochNs})
	}
	if from <= edge && edge < to {
		out = append(out, record.At(spare))
	}
	if after := max(from, edge+1); after < to {
		out = append(out, record.Range{From: after + epochNs, To: to + epochNs})
	}
	return out
}
