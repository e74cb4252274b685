package cluster_test

import (
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// readAll is a tally of writer 1, whose batches have the acqs 1,000 a batch, as spoil leaves them.
func readAll(batches int, spoil func(n rowName, acq int64) []int64) *tally {
	t := newTally("reader")
	for s := range batches {
		for i := range rowsOfBatch {
			n := rowName{1, uint64(s + 1), i}
			for _, acq := range spoil(n, int64(s+1)*1000+int64(i)) {
				k := n.key()
				k.AcqNs = acq
				t.add(k, n.payload())
			}
		}
	}
	return t
}

func asItIs(_ rowName, acq int64) []int64 { return []int64{acq} }

// only spoils one row.
func only(at rowName, acqs ...int64) func(rowName, int64) []int64 {
	return func(n rowName, acq int64) []int64 {
		if n == at {
			return acqs
		}
		return []int64{acq}
	}
}

// TestCheckersFind plants what a cluster must never do.
func TestCheckersFind(t *testing.T) {
	h := newHistory()
	for s := range uint64(10) {
		h.sent(1)
		if s != 7 { // batch 8 has no answer
			h.acked(1, s+1, wire.PutReply{FirstAcqNs: int64(s+1) * 1000,
				LastAcqNs: int64(s+1)*1000 + 999})
		}
	}
	f := func(name string, got *tally, want string) {
		t.Helper()
		wrong := strings.Join(got.compare(h), "\n")
		if want == "" && wrong != "" || want != "" && !strings.Contains(wrong, want) {
			t.Errorf("%s: found %q, want %q", name, wrong, want)
		}
	}
	f("all is well", readAll(10, asItIs), "")
	f("an unknown record is not there", readAll(10, only(rowName{1, 8, 3})), "")
	f("a lost record", readAll(10, only(rowName{1, 4, 3})), "lost: {writer:1 seq:4 i:3}")
	f("a lost batch", readAll(9, asItIs), "lost: writer 1: batch 10")
	f("a doubled record", readAll(10, only(rowName{1, 4, 3}, 4003, 4003)), "twice")
	f("a doubled unknown record", readAll(10, only(rowName{1, 8, 3}, 8003, 8004)), "twice")
	f("a batch that was never sent", readAll(11, asItIs), "batch 11 was never sent")
	f("an acq of another answer", readAll(10, only(rowName{1, 4, 3}, 5003)), "was answered")
	f("a correction before what it corrects", readAll(10, only(rowName{1, 8, 3}, 6500)), "order")
	odd := readAll(10, asItIs)
	odd.add(record.Key{CID: 1, MID: 256, MOID: 1, CapNs: 3}, rowName{1, 4, 1}.payload())
	f("a payload of another record", odd, "nobody sent")

	if got := readAll(10, asItIs).sameAs(readAll(10, asItIs)); len(got) != 0 {
		t.Errorf("two equal readers differ: %v", got)
	}
	for _, other := range []*tally{readAll(9, asItIs), readAll(10, only(rowName{1, 2, 2}, 1)),
		readAll(11, asItIs)} {
		if len(readAll(10, asItIs).sameAs(other)) == 0 {
			t.Error("two readers that differ are taken for equal")
		}
	}
	whole := newTally("all groups")
	for _, want := range []int{0, maxFindings} {
		if whole.join(readAll(3, asItIs)); len(whole.wrong) != want {
			t.Errorf("joined groups: found %v, want %d findings", whole.wrong, want)
		}
	}
	if len(risesStrictly("group", []int64{3, 1, 2})) != 0 {
		t.Error("three acqs are taken for equal")
	}
	if len(risesStrictly("group", []int64{3, 1, 3})) != 1 {
		t.Error("an acq that was given out twice is not found")
	}
}
