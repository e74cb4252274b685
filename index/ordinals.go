package index

import "slices"

// ordinals numbers the distinct values in ascending order. Ids are mostly given out one after
// another: where they lie close together, a table takes the place of a map and a sort.
func ordinals[T int32 | int64](values []T) []uint32 {
	if len(values) == 0 {
		return nil
	}
	lowest := slices.Min(values)
	span := uint64(slices.Max(values)) - uint64(lowest)
	if span >= 2*uint64(len(values)) {
		return sparseOrdinals(values)
	}
	number := make([]uint32, span+1)
	for _, v := range values {
		number[v-lowest] = 1
	}
	next := uint32(0)
	for i, used := range number {
		number[i] = next
		next += used
	}
	out := make([]uint32, len(values))
	for i, v := range values {
		out[i] = number[v-lowest]
	}
	return out
}

func sparseOrdinals[T int32 | int64](values []T) []uint32 {
	number := map[T]uint32{}
	var distinct []T
	out := make([]uint32, len(values))
	for i, v := range values {
		if i > 0 && v == values[i-1] {
			out[i] = out[i-1]
			continue
		}
		o, ok := number[v]
		if !ok {
			o = uint32(len(distinct))
			number[v] = o
			distinct = append(distinct, v)
		}
		out[i] = o
	}
	sorted := slices.Clone(distinct)
	slices.Sort(sorted)
	place := make([]uint32, len(distinct))
	for o, v := range sorted {
		place[number[v]] = uint32(o)
	}
	for i := range out {
		out[i] = place[out[i]]
	}
	return out
}
