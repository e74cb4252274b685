package member

import (
	"context"
	"net"
	"net/http"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
)

// network is how a member reaches other nodes. There are two: sockets, and the one of the
// simulator, which delays, loses and cuts.
type network interface {
	// listen opens the address at which the groups of other nodes reach those of this node.
	listen(addr string) (net.Listener, error)
	// replicas opens the log of the groups and connects it with those of other nodes.
	replicas(replica.Options) (groups, replica.Report, error)
	// gossip starts to find peers and to observe which of them are alive.
	gossip(cluster.GossipOptions) (gossip, error)
	// client sends requests to other nodes.
	client() *http.Client
}

// groups is the replicas of this node: a [replica.Runtime], or what a simulator steps.
type groups interface {
	Groups() map[cluster.GroupID]uint64
	Create(ctx context.Context, group cluster.GroupID, replica uint64, voters []uint64) error
	Start(group cluster.GroupID, m replica.Machine) error
	Drop(ctx context.Context, group cluster.GroupID) error
	Status(group cluster.GroupID) (replica.Status, error)
	ProposeIn(
		ctx context.Context, group cluster.GroupID, stamp replica.Stamp, ended func(),
		data ...[]byte,
	) (any, error)
	Lead(
		ctx context.Context, groups []cluster.GroupID,
		do func(group cluster.GroupID, t replica.Tenure),
	) error
	ReadIndex(ctx context.Context, group cluster.GroupID) (uint64, error)
	Change(ctx context.Context, group cluster.GroupID, change replica.Change) error
	TransferLeader(group cluster.GroupID, to uint64)
	Ask(ctx context.Context, node uint64, request ...[]byte) ([]byte, error)
	SendNote(node uint64, note []byte) bool
	SetSnapshotRate(bytesPerSec int64)
	MayLead() bool
	NoSpace() error
	CheckFiles()
	MistakenNode() uint64
	LogBytes() int64
	Verify(ctx context.Context, pace func(ctx context.Context, n, all int64) error,
		damaged func(group cluster.GroupID, err error)) error
	Close() error
}

// gossip is what a member needs of [cluster.Gossip].
type gossip interface {
	Peers() []cluster.Peer
	Update(ctx context.Context, metadata cluster.GossipMeta) error
	Addr() string
	Close(ctx context.Context) error
}

// peers makes a gossip one type, whatever is behind it.
type peers struct{ gossip }

// sockets is the network of the operating system.
type sockets struct{}

func (sockets) listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

func (sockets) replicas(o replica.Options) (groups, replica.Report, error) {
	run, report, err := replica.Open(o)
	if err != nil {
		return nil, report, err // not a nil Runtime, which would not be nil here
	}
	return run, report, nil
}

func (sockets) gossip(o cluster.GossipOptions) (gossip, error) {
	g, err := cluster.StartGossip(o)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (sockets) client() *http.Client { return newHTTP() }
