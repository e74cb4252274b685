package segment

import "github.com/pentad-db/pentad/sdk/crc32c"

func checksum(b []byte) uint32 { return crc32c.Sum(b) }

// update returns the checksum of what sum is of, followed by b.
func update(sum uint32, b []byte) uint32 { return crc32c.Update(sum, b) }

// checksum2 returns the checksum of a followed by b.
func checksum2(a, b []byte) uint32 { return crc32c.Update(crc32c.Sum(a), b) }
