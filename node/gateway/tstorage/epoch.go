package tstorage

import (
	"math"

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
