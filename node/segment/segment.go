// Package segment owns the bytes of rows on disk: sealed segments, which are immutable files of
// clustered blocks, and the entries of a log that hold rows. FORMAT.md describes both.
//
// It knows nothing of shards, versions or queries: a sealed segment is told the order of its rows
// and the index sections that it keeps. Its main types are [Sealed] and [Block]. It starts no
// goroutines.
package segment
