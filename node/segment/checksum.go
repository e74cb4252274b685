package segment

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// update is the checksum of what sum is of, and b behind it.
func update(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// checksum2 is the checksum of a and b one after the other.
func checksum2(a, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(a, castagnoli), castagnoli, b)
}
