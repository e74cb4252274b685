// Package replica runs many Raft groups in one process, and lets each keep the state machines of
// its replicas the same. Consensus is go.etcd.io/raft/v3, which only this package imports; what is
// here are files, pipes and queues: a log that all groups share, with one sync for whatever waits
// ([FORMAT.md] describes it), connections that carry the messages of all groups, snapshots that
// are fetched file by file, and a watchdog for disks that stall. It knows nothing of what the
// state machines hold, who belongs to a group or where nodes are: the owner says so.
//
// The owner gives each replica of a group an id that is never used again, [NewID], creates it on
// its node with Create, and starts it with a [Machine]. [Open] returns a Runtime, which has the
// goroutines and the network; a [Core] is the same in steps that a simulator calls one by one.
//
// What Propose returned a result for is on the disks of a majority and applied here. After
// ErrUnknown it may be applied or not: commands must be safe to send twice.
//
// Caveats: after an error of the log the process must end, see Options.Fail. A group whose log
// lost something is quarantined and never comes back under its id. The jitter of elections is the
// library's and comes from crypto/rand.Reader, which a simulator replaces.
//
// [FORMAT.md]: https://github.com/pentad-db/pentad/blob/main/node/replica/FORMAT.md
package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Errors of proposals, reads and changes of members.
var (
	ErrNotLeader    = errors.New("not the leader of the group")
	ErrOverloaded   = errors.New("too many proposals are in flight; try again later")
	ErrTooLarge     = errors.New("a command is too large for the log of a group")
	ErrGroupUnknown = errors.New("the group does not run on this node")
	ErrClosed       = errors.New("the replicas are closed")
	// ErrWasHere: an id does not rise, or is that of another node, or there is no such group.
	ErrWasHere = errors.New("ids of the replicas of a group must rise and name this node")
	// ErrUnreachable: a node is not reached, and nothing was sent to it.
	ErrUnreachable = errors.New("the node cannot be reached")
	// ErrUnknown: leadership or patience ended while it was in progress. It may have been, or may
	// yet be, applied once, or never.
	ErrUnknown = errors.New("whether it was applied is unknown")
	// ErrChangeRefused: another change of members was in progress, or this one names a replica that
	// is no member, or gives a node a replica id that is not newer than its last.
	ErrChangeRefused = errors.New("the change of members is refused")
)

// Errors of the log and of what cannot go on.
var (
	ErrLogFailed = errors.New("the log of the groups failed; restart the node")
	// ErrRolledBack: a replica knows less than it promised to others. Its directory was put back
	// from an older state, or its disk lost what it had synced. It takes no part any more.
	ErrRolledBack = errors.New("the replica has less than it promised to others: its directory " +
		"was copied or restored")
	// ErrForked: two replicas know different entries to be committed at one index. A majority was
	// formed with replicas that had lost what they promised.
	ErrForked = errors.New("two different histories of the group were committed")
	// ErrStopped wraps what made one group stop while the others go on: damage, or an error of its
	// machine.
	ErrStopped = errors.New("the group has stopped")
)

// DamageError says where the log holds something else than what was written.
type DamageError struct {
	Group  GroupID // NoGroup when that is not known
	File   string
	Offset int64
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("damage in the log of %v, %s at offset %d: %s; the cluster "+
		"replaces it from the other replicas", groupName(e.Group), e.File, e.Offset, e.Reason)
}

// NotLeaderError is an ErrNotLeader with a hint.
type NotLeaderError struct {
	Group  GroupID
	Leader uint64 // the replica that leads, as far as this one knows; 0 for none
}

func (e *NotLeaderError) Error() string {
	if e.Leader == 0 {
		return fmt.Sprintf("group %d has no leader that this node knows", e.Group)
	}
	return fmt.Sprintf("group %d is led by node %016x", e.Group, Node(e.Leader))
}

// Is makes every NotLeaderError an ErrNotLeader.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// MaxNumber is the highest number of a replica.
const MaxNumber = 1<<numberBits - 1

const numberBits = 24

// NewID returns the id of a replica: of a node, and a number that rises with each replica of the
// group that the node gets. Node is at least 1 and below 2^40, number at least 1 and at most
// MaxNumber. An owner must never give the same id twice, also when a node lost its disk.
func NewID(node uint64, number uint32) uint64 { return node<<numberBits | uint64(number) }

// Number returns the number of a replica.
func Number(id uint64) uint32 { return uint32(id & MaxNumber) }

// Node returns the node of a replica.
func Node(id uint64) uint64 { return id >> numberBits }

// Entry is one place in the log of a group. Data is what was proposed, and valid during the call;
// an entry without any is the library's own, and only its index is to be noted.
type Entry struct {
	Index, Term uint64
	Data        []byte
}

// Machine is the state of one replica. Its methods but Durable are called one at a time.
type Machine interface {
	// Apply takes in entries, each the next after Applied; results[i] goes to who proposed
	// entries[i]. It must depend on nothing but the entries. An error stops the group.
	Apply(entries []Entry, results []any) error
	// Applied is the index of the last entry in the state; 0 for an empty one.
	Applied() uint64
	// Durable is the index through which the state outlives a loss of power. The log keeps what
	// comes after it.
	Durable() uint64
	// Sync lets Durable reach Applied.
	Sync() error
	// Snapshot returns the present state, unchanged by what is applied later.
	Snapshot() (Snapshot, error)
	// Install replaces all state by a snapshot of another replica and makes it durable. A crash
	// leaves the old state or the new one.
	Install(ctx context.Context, manifest []byte, fetch Fetch) error
}

// Snapshot is the state of a machine at one index, for replicas that need more than the log has.
type Snapshot interface {
	Index() uint64
	Manifest() []byte // what Install gets; a few KB, and names the files
	Open(name string) (io.ReadCloser, error)
	Close()
}

// Fetch reads a file of the snapshot from an offset on, which is that of what an earlier attempt
// left. Every byte that it hands out was checked; a connection that broke is made again.
type Fetch func(ctx context.Context, name string, offset int64) (io.ReadCloser, error)

// Change of the members of a group, in one step of two phases: at no time can two majorities
// decide. Learners get the log and do not vote.
type Change struct {
	AddLearner []uint64 // ids that the group never had
	Promote    []uint64 // learners that become voters
	Remove     []uint64
}

// Member of a group.
type Member struct {
	Replica uint64
	Learner bool
	Match   uint64 // last index that it is known to have; only the leader knows
}

// Status of a replica. Match and Commit of it are up to 200 ms old.
type Status struct {
	Replica uint64
	Leader  uint64 // 0 for none
	Term    uint64
	Commit  uint64
	Applied uint64
	Last    uint64 // of its log
	Members []Member
	Joint   bool  // a change of members is in its first phase
	Err     error // why it has stopped
	// Confirmed: after a start, others have confirmed that it knows all that it promised, and it
	// takes its full part.
	Confirmed bool
	// Unconfirmed are the voters that have not confirmed that yet; it takes no part before.
	Unconfirmed []uint64
	// Led is the replica that leads the group meanwhile; 0: none was heard.
	Led uint64
}
