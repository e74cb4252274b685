package slots

// GroupID is the number of a group of a cluster, the same in code, errors, requests, metrics and
// names of directories: 0 is the meta group, which owns no slots, and the groups that own slots are
// numbered from 1.
type GroupID uint32

// GroupSpan returns the slots of a group where groups own the same number of slots each.
func GroupSpan(group GroupID, groups int) Range {
	from, to := Span(int(group)-1, groups)
	return Range{From: from, To: to}
}
