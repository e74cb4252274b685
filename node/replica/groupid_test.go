package replica

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// A group has the number in files and messages that it always had there, and the cluster's number
// in errors.
func TestGroupNumbers(t *testing.T) {
	for group, want := range map[GroupID]uint32{0: 1, 1: 2, 41: 42, NoGroup: 0} {
		src := binary.LittleEndian.AppendUint32(nil, stored(group))
		if got := binary.LittleEndian.Uint32(src); got != want || groupAt(src) != group {
			t.Errorf("group %d is stored as %d, want %d, and read as %d", group, got, want,
				groupAt(src))
		}
	}
	for _, err := range []error{&NotLeaderError{Group: 3}, &NotLeaderError{Group: 3, Leader: 1},
		&DamageError{Group: 3}} {
		if !strings.Contains(err.Error(), "group 3") {
			t.Errorf("of group 3: %v", err)
		}
	}
	if text := (&DamageError{Group: NoGroup}).Error(); !strings.Contains(text, "unknown group") {
		t.Errorf("of no group: %s", text)
	}
	c, _, err := OpenCore(CoreOptions{Node: 1, Files: newDisk(), Network: nowhere{}})
	if err != nil {
		t.Fatal(err)
	}
	c.Create(NoGroup, NewID(1, 1), []uint64{NewID(1, 1)}, func(err error) {
		if !errors.Is(err, ErrWasHere) {
			t.Errorf("no group was created: %v", err)
		}
	})
	c.Propose(3, [][]byte{{1}}, func(_ any, err error) {
		if !errors.Is(err, ErrGroupUnknown) || !strings.Contains(err.Error(), "group 3: ") {
			t.Errorf("of group 3: %v", err)
		}
	})
}
