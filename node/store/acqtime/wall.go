package acqtime

import "math"

// LastNs is the greatest reading of a clock that rows are stamped with, in 2200: what lies
// between there and the end of int64, in 2262, is enough stamps for ever after.
const LastNs = 7_258_118_400_000_000_000

// Clamped returns a clock that ends in 2200, nanoseconds since 1970.
func Clamped(now func() int64) func() int64 {
	return func() int64 { return max(math.MinInt64+2*LeaseNs, min(now(), LastNs)) }
}

// Clamp is a clock reading of a proposer, nanoseconds since 1970, as acqs may follow it.
func Clamp(clockNs int64) int64 { return max(1, min(clockNs, LastNs)) }
