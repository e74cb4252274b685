package seal

import (
	"crypto/sha256"
	"encoding/binary"
)

// KeyBytes is the size of every key.
const KeyBytes = 32

// Key is a secret, or one that is derived from a secret.
type Key [KeyBytes]byte

// String keeps keys out of logs.
func (Key) String() string { return "seal.Key(secret)" }

// GoString keeps keys out of logs.
func (Key) GoString() string { return "seal.Key(secret)" }

// Labels say what a key is for; no two keys of one parent have the same label and context.
const (
	labelDevice   = "dev"
	labelSeries   = "ser"
	labelLane     = "add"
	labelEnvelope = "aead"
	labelMAC      = "mac"
	labelMACPad   = "macpad"
	labelOrder    = "ore"
	labelEqual    = "bidx"
	labelWrap     = "wrap"
	labelID       = "id"
	labelImport   = "import"
)

// derive returns a key of a parent: HKDF-Expand with SHA-256 over
// "pentad/v1/" label 00 (u16be(len(c)) c)*.
func derive(parent *Key, label string, context ...[]byte) (k Key) {
	info := make([]byte, 0, 96)
	info = append(info, "pentad/v1/"...)
	info = append(info, label...)
	info = append(info, 0)
	for _, c := range context {
		info = binary.BigEndian.AppendUint16(info, uint16(len(c)))
		info = append(info, c...)
	}
	return expand(parent, info)
}

// expand is HKDF-Expand with SHA-256 for 32 bytes, which is HMAC over the context and a 1. The
// standard library's takes three times as long, as it makes a hash of its own for each use, and a
// sum over many devices is mostly this.
func expand(parent *Key, info []byte) (k Key) {
	var inner [sha256.BlockSize + 192]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	for i := range sha256.BlockSize {
		b := byte(0)
		if i < KeyBytes {
			b = parent[i]
		}
		inner[i], outer[i] = b^0x36, b^0x5c
	}
	text := append(append(inner[:sha256.BlockSize], info...), 1)
	hash := sha256.Sum256(text)
	copy(outer[sha256.BlockSize:], hash[:])
	return sha256.Sum256(outer[:])
}

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }
func be32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
func be64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// deviceKeyOf is the key of a device whose keyring derives it from the root of its tenant.
func deviceKeyOf(root *Key, cid int32, mid int64) Key {
	return derive(root, labelDevice, be32(uint32(cid)), be64(uint64(mid)))
}

// seriesKeyOf is the key of one quantity of a device, as sealed by a schema.
func seriesKeyOf(device *Key, moid int32, s *Schema) Key {
	return derive(device, labelSeries, be32(uint32(moid)), s.print[:])
}

// laneKeyOf is the key of the pads of a field in one chain.
func laneKeyOf(series *Key, field uint16, chain uint64) Key {
	return derive(series, labelLane, be16(field), be64(chain))
}

func envelopeKeyOf(series *Key, chain uint64) Key {
	return derive(series, labelEnvelope, be64(chain))
}

func orderKeyOf(scope *Key, moid int32, s *Schema, field uint16) Key {
	return derive(scope, labelOrder, be32(uint32(moid)), s.print[:], be16(field))
}

// equalKeyOf is the key of the tags of a field. Period is 0 unless tags are those of a period.
func equalKeyOf(scope *Key, moid int32, s *Schema, field uint16, period int64) Key {
	return derive(scope, labelEqual, be32(uint32(moid)), s.print[:], be16(field),
		be64(uint64(period)))
}
