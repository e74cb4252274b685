package index

import (
	"math/bits"
	"slices"
)

const (
	// keyBuckets is about how many keys there are to sort, so that most buckets hold one or two.
	keyBuckets = 512
	// maxInBucket is how many keys a bucket may hold for its order to be made by insertion.
	maxInBucket = 24
	// digitBits is how many bits of a key one pass sorts by, and minByDigits how many keys make the
	// passes pay.
	digitBits   = 10
	minByDigits = 512
)

// keySorter sorts numbers, and keeps its memory from one time to the next.
type keySorter struct {
	starts [keyBuckets + 1]uint32
	spare  []uint64
	counts [1 << digitBits]uint32
}

// sort sorts keys, none of which has more than keyBits bits, and whose lowest indexBits ascend from
// one to the next. Keys that spread evenly, as those of devices do, are laid in buckets by their
// high bits, which leaves little to compare; of others, many are sorted digit by digit, and few are
// compared.
//
// Cost: about 10 ns a key for some hundreds that spread evenly, a quarter of [slices.Sort].
func (s *keySorter) sort(keys []uint64, indexBits, keyBits int) {
	shift := max(0, keyBits-bits.Len(keyBuckets-1))
	if len(keys) > 4*keyBuckets {
		s.sortDigits(keys, indexBits, keyBits)
		return
	}
	clear(s.starts[:])
	for _, key := range keys {
		s.starts[key>>shift+1]++
	}
	if slices.Max(s.starts[:]) > maxInBucket {
		if len(keys) < minByDigits {
			slices.Sort(keys)
		} else {
			s.sortDigits(keys, indexBits, keyBits)
		}
		return
	}
	for i := range keyBuckets {
		s.starts[i+1] += s.starts[i]
	}
	s.spare = append(s.spare[:0], keys...)
	for _, key := range s.spare {
		at := &s.starts[key>>shift]
		keys[*at] = key
		*at++
	}
	for i := 1; i < len(keys); i++ {
		key, k := keys[i], i
		for ; k > 0 && keys[k-1] > key; k-- {
			keys[k] = keys[k-1]
		}
		keys[k] = key
	}
}

// sortDigits sorts by the bits from indexBits on: by the lowest digit first, each time stable.
func (s *keySorter) sortDigits(keys []uint64, indexBits, keyBits int) {
	s.spare = slices.Grow(s.spare[:0], len(keys))[:len(keys)]
	from, to := keys, s.spare
	for shift := indexBits; shift < keyBits; shift += digitBits {
		clear(s.counts[:])
		for _, key := range from {
			s.counts[key>>shift&(1<<digitBits-1)]++
		}
		if int(s.counts[from[0]>>shift&(1<<digitBits-1)]) == len(from) {
			continue
		}
		at := uint32(0)
		for i, n := range s.counts {
			s.counts[i] = at
			at += n
		}
		for _, key := range from {
			digit := key >> shift & (1<<digitBits - 1)
			to[s.counts[digit]] = key
			s.counts[digit]++
		}
		from, to = to, from
	}
	if &from[0] != &keys[0] {
		copy(keys, from)
	}
}
