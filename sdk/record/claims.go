package record

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Names of devices are records of reserved moids. Two kinds of claims give ids to names:
//
//	a name   cid, mid = the first 22 bits of the name's hash, moid = NameMOID,
//	         cap = -2^62 + the first 12 bits again and 50 more
//	         payload: the id that the name has, in 8 bytes, and the name
//	ids      cid, mid = idClaimMID, cap = the first of a run of ids, moid = IDBlockMOID
//	         payload: 16 random bytes of the claimant, and how many ids it takes, in 8 bytes
//
// Claims of names that are near by mid are so by cap, too: who asks for many names meets blocks
// where both are, and not all mids with all caps. No reading is older, so that none counts as one
// that came late.
//
// A store takes a claim only where there is none with another payload; a tombstone takes one back.
//
// A claim is stored with other devices than the one which it names, perhaps on other nodes. What
// becomes of the name is said at the device, too:
//
//	an end   cid, mid = the device, moid = DeviceNameMOID, cap = 0
//	         payload: the name that it has; empty: it was removed, and gets none again
//
// Without such a record a claim holds; with one only that of its name.
const (
	// FirstGivenID is the least id that names get: above what people choose by hand, and exact as
	// a float64.
	FirstGivenID = 1 << 40
	// MaxClaimedIDs is how many ids one claim takes, at most.
	MaxClaimedIDs = 10_000
	// MaxDeviceNameBytes bounds the name of a device.
	MaxDeviceNameBytes = 256

	// nameBits of the hash are the mid of a name: a device range for each slot, so that names are
	// spread over all groups, and heads have fewer cells than names.
	nameBits     = 14 + 8
	nameCapBits  = 12            // of these are first in the cap
	idClaimMID   = 1 << nameBits // behind those of names
	idClaimBytes = 16 + 8
)

// NameClaimKey returns the key of the claim of a name, without an acq.
func NameClaimKey(cid int32, name string) Key {
	sum := sha256.Sum256([]byte(name))
	first, rest := binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
	hash := first>>(64-nameCapBits)<<50 | rest>>(64-50)
	return Key{CID: cid, MID: int64(first >> (64 - nameBits)), MOID: NameMOID,
		CapNs: int64(hash) - 1<<62}
}

// AppendNameClaim appends the payload of the claim by which a name has an id.
func AppendNameClaim(dst []byte, mid int64, name string) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, uint64(mid)), name...)
}

// ParseNameClaim reads the claim of a name.
//
// Errors: what it lacks; it has no name that could be one, or not the key of its name.
func ParseNameClaim(key Key, payload []byte) (mid int64, name string, err error) {
	if len(payload) < 8 {
		return 0, "", fmt.Errorf("a claim of a name has an id of 8 bytes and a name, this one %d "+
			"bytes", len(payload))
	}
	mid, name = int64(binary.LittleEndian.Uint64(payload)), string(payload[8:])
	want := NameClaimKey(key.CID, name)
	want.AcqNs = key.AcqNs
	switch {
	case len(name) == 0 || len(name) > MaxDeviceNameBytes:
		return 0, "", fmt.Errorf("the name %q has %d bytes, not 1 to %d", excerpt.Of(name, 40),
			len(name), MaxDeviceNameBytes)
	case key != want:
		return 0, "", fmt.Errorf("the name %q is claimed with mid %d and cap %d, and here are mid "+
			"%d and cap %d", excerpt.Of(name, 80), want.MID, want.CapNs, key.MID, key.CapNs)
	case mid < FirstGivenID || mid == math.MaxInt64:
		return 0, "", fmt.Errorf("the name %q has the id %d; ids of names are %d to 2^63-2",
			excerpt.Of(name, 80), mid, int64(FirstGivenID))
	}
	return mid, name, nil
}

// DeviceNameKey returns the key of what a device says of its name, without an acq.
func DeviceNameKey(cid int32, mid int64) Key {
	return Key{CID: cid, MID: mid, MOID: DeviceNameMOID}
}

// ParseDeviceName returns the name that a device says it has, empty if it was removed.
//
// Errors: what it lacks.
func ParseDeviceName(key Key, payload []byte) (name string, err error) {
	if key.CapNs != 0 || len(payload) > MaxDeviceNameBytes {
		return "", fmt.Errorf("a device says its name with cap 0 and at most %d bytes, and here "+
			"are cap %d and %d bytes", MaxDeviceNameBytes, key.CapNs, len(payload))
	}
	return string(payload), nil
}

// IDClaimKey returns the key of the claim of a run of ids, without an acq.
func IDClaimKey(cid int32, firstID int64) Key {
	return Key{CID: cid, MID: idClaimMID, MOID: IDBlockMOID, CapNs: firstID}
}

// AppendIDClaim appends the payload of a claim of ids.
func AppendIDClaim(dst []byte, claimant [16]byte, ids int) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, claimant[:]...), uint64(ids))
}

// ParseIDClaim returns how many ids a claim takes.
//
// Errors: what it lacks.
func ParseIDClaim(key Key, payload []byte) (ids int64, err error) {
	if len(payload) != idClaimBytes {
		return 0, fmt.Errorf("a claim of ids has %d bytes, this one %d", idClaimBytes, len(payload))
	}
	n := binary.LittleEndian.Uint64(payload[16:])
	switch {
	case n < 1 || n > MaxClaimedIDs:
		return 0, fmt.Errorf("a claim of %d ids, not 1 to %d", n, MaxClaimedIDs)
	case key.MID != idClaimMID || key.CapNs < FirstGivenID ||
		key.CapNs > math.MaxInt64-MaxClaimedIDs:
		return 0, fmt.Errorf("ids are claimed with mid %d and a cap of at least %d, and here are "+
			"mid %d and cap %d", idClaimMID, int64(FirstGivenID), key.MID, key.CapNs)
	}
	return int64(n), nil
}
