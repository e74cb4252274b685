// Package crc32c is the checksum of all files and frames: CRC-32C, the Castagnoli polynomial.
//
// It knows nothing of what is summed; it has no types and starts no goroutines.
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of p.
func Sum(p []byte) uint32 { return crc32.Checksum(p, table) }

// Update returns the checksum of what sum is of, followed by p.
func Update(sum uint32, p []byte) uint32 { return crc32.Update(sum, table, p) }
