package index

import "slices"

// ordinals numbers the distinct values in ascending order, and returns the number of each value,
// in the memory of to, and the distinct ones. Ids are mostly given out one after another: where
// they lie close together, a table takes the place of a map and a sort.
func ordinals[T int32 | int64](
	values []T, to []uint32, table *[]uint32,
) (numbers []uint32, distinct []T) {
	numbers = emptied(to, len(values))[:len(values)]
	if len(values) == 0 {
		return numbers, nil
	}
	lowest := slices.Min(values)
	span := uint64(slices.Max(values)) - uint64(lowest)
	if span >= 2*uint64(len(values)) {
		return numbers, sparseOrdinals(values, numbers)
	}
	number := emptied(*table, int(span)+1)[:span+1]
	*table = number
	clear(number)
	for _, v := range values {
		number[v-lowest] = 1
	}
	for i, used := range number {
		number[i] = uint32(len(distinct))
		if used != 0 {
			distinct = append(distinct, lowest+T(i))
		}
	}
	for i, v := range values {
		numbers[i] = number[v-lowest]
	}
	return numbers, distinct
}

func sparseOrdinals[T int32 | int64](values []T, numbers []uint32) (distinct []T) {
	number := map[T]uint32{}
	for i, v := range values {
		if i > 0 && v == values[i-1] {
			numbers[i] = numbers[i-1]
			continue
		}
		o, ok := number[v]
		if !ok {
			o = uint32(len(distinct))
			number[v] = o
			distinct = append(distinct, v)
		}
		numbers[i] = o
	}
	sorted := slices.Clone(distinct)
	slices.Sort(sorted)
	ordinal := make([]uint32, len(distinct))
	for o, v := range sorted {
		ordinal[number[v]] = uint32(o)
	}
	for i := range numbers {
		numbers[i] = ordinal[numbers[i]]
	}
	return sorted
}
