package replica

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/node/internal/slots"
)

// GroupID is the number of a group, as its cluster counts them.
type GroupID = slots.GroupID

// NoGroup stands for a group that is not known, and in messages between nodes for none.
const NoGroup GroupID = math.MaxUint32

// Logs and messages store the number of a group plus 1, and 0 for none. Only stored and groupAt
// convert.

func stored(group GroupID) uint32 { return uint32(group) + 1 }

// groupAt returns the group whose stored number src begins with.
func groupAt(src []byte) GroupID { return GroupID(binary.LittleEndian.Uint32(src) - 1) }

// groupName names a group in errors.
type groupName GroupID

func (c groupName) String() string {
	if GroupID(c) == NoGroup {
		return "an unknown group"
	}
	return fmt.Sprintf("group %d", uint32(c))
}
