package member

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/crc32c"
)

// stateName is the file of a replica of the meta group: the index u64 of the last command in it,
// little-endian, the CRC-32C u32 of index and state, and the state as package cluster writes it.
const (
	stateName   = "STATE"
	stateHeader = 12
	maxState    = 256 << 20
)

// metaReplica is a replica of the meta group.
type metaReplica struct {
	dir      string
	files    durable.Folder // the same
	meta     *cluster.Meta
	features cluster.Features // that are run
	applied  atomic.Uint64
	durable  atomic.Uint64
	given    atomic.Int32 // snapshots that others may read
	changed  func()
	others   fetchModule // nil when there are none

	writing sync.Mutex // held while modules are written or removed
}

var _ replica.Machine = (*metaReplica)(nil)

func openMetaReplica(dir string, f cluster.Features, changed func()) (*metaReplica, error) {
	k := &metaReplica{dir: dir, files: durable.Dir(dir), features: f,
		meta: cluster.NewMeta(cluster.NewState()), changed: changed}
	k.meta.RunAs(f)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, stateName)
	src, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the cluster: %w", err)
	}
	if err := k.setState(src); errors.Is(err, cluster.ErrOtherRules) {
		return nil, fmt.Errorf("%s: %w", name, err)
	} else if err != nil {
		return nil, &durable.CorruptError{File: name, Reason: err.Error()}
	}
	k.durable.Store(k.applied.Load())
	return k, nil
}

func (k *metaReplica) Close() error { return nil }

// setState makes what encode wrote the state.
func (k *metaReplica) setState(src []byte) error {
	s, err := k.parse(src)
	if err == nil {
		k.replace(src, s)
	}
	return err
}

func (k *metaReplica) parse(src []byte) (*cluster.State, error) {
	s, err := parseStateFile(src)
	if err == nil {
		err = s.Suits(k.features)
	}
	return s, err
}

func (k *metaReplica) replace(src []byte, s *cluster.State) {
	k.meta.Replace(s)
	k.applied.Store(binary.LittleEndian.Uint64(src))
}

func parseStateFile(src []byte) (*cluster.State, error) {
	if len(src) < stateHeader {
		return nil, errors.New("it is cut short")
	}
	if checksum(src) != binary.LittleEndian.Uint32(src[8:]) {
		return nil, errors.New("the checksum differs")
	}
	return cluster.ParseState(src[stateHeader:])
}

func checksum(src []byte) uint32 {
	return crc32c.Update(crc32c.Sum(src[:8]), src[stateHeader:])
}

func (k *metaReplica) encode() []byte {
	out := binary.LittleEndian.AppendUint64(nil, k.applied.Load())
	out = k.meta.AppendSnapshot(append(out, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(out[8:], checksum(out))
	return out
}

func (k *metaReplica) Apply(entries []replica.Entry, results []any) error {
	for i, e := range entries {
		if len(e.Data) > 0 {
			result, err := k.apply(e.Data)
			if err != nil {
				return err
			}
			results[i] = result
		}
		k.applied.Store(e.Index)
	}
	k.changed()
	return nil
}

func (k *metaReplica) Applied() uint64 { return k.applied.Load() }
func (k *metaReplica) Durable() uint64 { return k.durable.Load() }

func (k *metaReplica) Sync() error {
	at := k.applied.Load()
	if at == k.durable.Load() {
		return nil
	}
	if err := durable.Replace(k.files, stateName, k.encode()); err != nil {
		return err
	}
	k.durable.Store(at)
	return k.sweep()
}

func (k *metaReplica) Snapshot() (replica.Snapshot, error) {
	k.given.Add(1)
	return &metaSnapshot{index: k.applied.Load(), state: k.encode(), of: k}, nil
}

func (k *metaReplica) Install(ctx context.Context, manifest []byte, fetch replica.Fetch) error {
	file, err := fetch(ctx, stateName, 0)
	if err != nil {
		return err
	}
	src, err := io.ReadAll(io.LimitReader(file, maxState))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	s, err := k.parse(src)
	if err != nil {
		return fmt.Errorf("install the state of the cluster: %w", err)
	}
	if err := k.fetchModules(ctx, s.Catalog(), fetch); err != nil {
		return fmt.Errorf("install the modules of the cluster: %w", err)
	}
	if err := durable.Replace(k.files, stateName, src); err != nil {
		return err // the old state stays, here and on disk
	}
	k.replace(src, s)
	k.durable.Store(k.applied.Load())
	k.changed()
	return k.sweep()
}

// metaSnapshot is the state at one index.
type metaSnapshot struct {
	index uint64
	state []byte
	of    *metaReplica // has the modules
}

func (i *metaSnapshot) Index() uint64    { return i.index }
func (i *metaSnapshot) Manifest() []byte { return []byte(stateName) }
func (i *metaSnapshot) Close()           { i.of.given.Add(-1) }
func (i *metaSnapshot) Open(name string) (io.ReadCloser, error) {
	text := i.state
	if digest, isModule := strings.CutSuffix(name, catalog.ModuleSuffix); isModule {
		ctx, cancel := context.WithTimeout(context.Background(), moduleTimeout)
		defer cancel()
		var err error
		if text, err = i.of.mended(ctx, filepath.Base(digest)); err != nil {
			return nil, err
		}
	} else if name != stateName {
		return nil, fmt.Errorf("%q: %w", name, os.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}
