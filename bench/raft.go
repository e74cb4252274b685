package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/record"
)

// sink is a machine that counts.
type sink struct{ applied atomic.Uint64 }

func (s *sink) Apply(entries []replica.Entry, _ []any) error {
	s.applied.Store(entries[len(entries)-1].Index)
	return nil
}

func (s *sink) Applied() uint64 { return s.applied.Load() }

func (s *sink) Durable() uint64 { return s.applied.Load() }

func (s *sink) Sync() error { return nil }

func (s *sink) Snapshot() (replica.Snapshot, error) {
	return &sinkSnapshot{index: s.applied.Load()}, nil
}

func (s *sink) Install(_ context.Context, manifest []byte, _ replica.Fetch) error {
	s.applied.Store(binary.LittleEndian.Uint64(manifest))
	return nil
}

type sinkSnapshot struct{ index uint64 }

func (s *sinkSnapshot) Index() uint64 { return s.index }

func (s *sinkSnapshot) Manifest() []byte { return binary.LittleEndian.AppendUint64(nil, s.index) }

func (s *sinkSnapshot) Open(name string) (io.ReadCloser, error) {
	return nil, fmt.Errorf("%s: a machine that counts has no files", name)
}

func (s *sinkSnapshot) Close() {}

// trio is three nodes in this process that have nothing but replicas.
type trio struct {
	dir    string
	groups replica.GroupID
	nodes  [3]*replica.Runtime

	mu    sync.Mutex // guards addrs
	addrs [3]string
}

func openTrio(ctx context.Context, dir string, groups replica.GroupID) (*trio, error) {
	t := &trio{dir: dir, groups: groups}
	voters := []uint64{replica.NewID(1, 1), replica.NewID(2, 1), replica.NewID(3, 1)}
	for i := range t.nodes {
		if err := t.open(i); err != nil {
			return t, err
		}
		for g := replica.GroupID(1); g <= groups; g++ {
			err := t.nodes[i].Create(ctx, g, voters[i], voters)
			if err == nil {
				err = t.nodes[i].Start(g, new(sink))
			}
			if err != nil {
				return t, err
			}
		}
	}
	for g := replica.GroupID(1); g <= groups; g++ {
		if err := t.spread(ctx, g); err != nil {
			return t, err
		}
	}
	return t, nil
}

// open opens a node that has no replicas yet.
func (t *trio) open(i int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.addrs[i] = listener.Addr().String()
	t.mu.Unlock()
	files, err := replica.Directory(filepath.Join(t.dir, fmt.Sprint(i)))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	t.nodes[i], _, err = replica.Open(replica.Options{Node: uint64(i) + 1, Cluster: 1,
		Files: files, Listener: listener, PlainTCP: true, Groups: int(t.groups),
		Resolve: func(node uint64) (string, bool) {
			t.mu.Lock()
			defer t.mu.Unlock()
			return t.addrs[node-1], t.addrs[node-1] != ""
		}, Fail: func(err error) { panic(err) }})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return nil
}

// spread lets the node lead a group whose turn it is, and writes to it.
func (t *trio) spread(ctx context.Context, group replica.GroupID) error {
	to := int(group) % len(t.nodes)
	for {
		if err := t.propose(ctx, group, []byte("begin")); err != nil {
			return err
		}
		leader := t.leader(group)
		if leader == to {
			return nil
		}
		if leader >= 0 {
			t.nodes[leader].TransferLeader(group, replica.NewID(uint64(to)+1, 1))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// leader returns who leads a group as far as the first open node knows, -1 for no one.
func (t *trio) leader(group replica.GroupID) int {
	for _, n := range t.nodes {
		if n == nil {
			continue
		}
		if st, err := n.Status(group); err == nil && st.Leader != 0 {
			return int(replica.Node(st.Leader)) - 1
		}
	}
	return -1
}

// propose asks all nodes in turn, the leader first, until one has done it.
func (t *trio) propose(ctx context.Context, group replica.GroupID, data []byte) error {
	at := max(t.leader(group), 0)
	for try := 0; ; try++ {
		if n := t.nodes[(at+try)%len(t.nodes)]; n != nil {
			short, cancel := context.WithTimeout(ctx, time.Second)
			_, err := n.Propose(short, group, data)
			cancel()
			if err == nil {
				return nil
			}
		}
		if try%len(t.nodes) == len(t.nodes)-1 {
			if err := pause(ctx, 2*time.Millisecond); err != nil {
				return err
			}
		}
	}
}

// load has each group commit batches, four in progress in each, until this many bytes are there or
// the context ends, and returns how many were committed.
func (t *trio) load(ctx context.Context, batch []byte, batches int64) (int64, error) {
	var left, done atomic.Int64
	left.Store(batches)
	var wg sync.WaitGroup
	errs := make([]error, 4*t.groups)
	for i := range errs {
		wg.Go(func() {
			group := replica.GroupID(i)%t.groups + 1
			for errs[i] == nil && left.Add(-1) >= 0 {
				if errs[i] = t.propose(ctx, group, batch); errs[i] == nil {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return done.Load(), errors.Join(errs...)
}

func (t *trio) close() (err error) {
	for _, n := range t.nodes {
		if n != nil {
			err = errors.Join(err, n.Close())
		}
	}
	return err
}

// randomBatch is a thousand records of 60 bytes that nothing makes smaller.
func randomBatch() []byte { return randomBytes(batchRecords * recordBytes) }

const batchRecords, recordBytes = 1000, 60

func randomBytes(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	var out []byte
	for len(out) < n {
		out = binary.LittleEndian.AppendUint64(out, rng.Uint64())
	}
	return out[:n]
}

// randomRecords returns batches of a thousand large records, mb MB in all, for devices of all
// groups.
func randomRecords(mb int) (out []*record.Batch) {
	const payloadBytes = 1 << 10
	payloads := randomBytes(batchRecords * payloadBytes)
	for range max(1, mb<<20/len(payloads)) {
		b := &record.Batch{}
		for i := range batchRecords {
			b.Append(record.Key{CID: 1, MID: int64(i) << 8, MOID: 1, CapNs: int64(len(out))}, nil)
		}
		b.Data, b.Stride = payloads, payloadBytes // one for all batches
		out = append(out, b)
	}
	return out
}

func pause(ctx context.Context, d time.Duration) error { return until(ctx, time.Now().Add(d)) }
