package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// list is a machine that keeps every command, and knows which of them a loss of power leaves.
type list struct {
	commands []string
	indexes  []uint64 // of each command
	applied  uint64
	lasting  *list // what a crash leaves; nil for nothing
	durable  atomic.Uint64
	fail     error
	failOnce error
}

func (l *list) Apply(entries []Entry, results []any) error {
	if err := l.failOnce; err != nil {
		l.failOnce = nil
		return err
	}
	if l.fail != nil {
		return l.fail
	}
	for i, e := range entries {
		l.applied = e.Index
		if len(e.Data) > 0 {
			l.commands, l.indexes = append(l.commands, string(e.Data)), append(l.indexes, e.Index)
			results[i] = len(l.commands)
		}
	}
	return nil
}

func (l *list) Applied() uint64 { return l.applied }

func (l *list) Durable() uint64 { return l.durable.Load() }

func (l *list) Sync() error {
	l.lasting = &list{commands: slices.Clone(l.commands), indexes: slices.Clone(l.indexes),
		applied: l.applied}
	l.durable.Store(l.applied)
	return nil
}

// afterCrash returns the machine as it is found again.
func (l *list) afterCrash() *list {
	out := &list{}
	if l.lasting != nil {
		out.commands = slices.Clone(l.lasting.commands)
		out.indexes = slices.Clone(l.lasting.indexes)
		out.applied = l.lasting.applied
		out.lasting = l.lasting
		out.durable.Store(out.applied)
	}
	return out
}

// kept is a snapshot of a list: its manifest has the index, a file the commands.
type kept struct {
	index uint64
	data  []byte
}

func (l *list) Snapshot() (Snapshot, error) {
	data, err := json.Marshal([]any{l.commands, l.indexes})
	return &kept{index: l.applied, data: data}, err
}

func (k *kept) Index() uint64 { return k.index }

func (k *kept) Manifest() []byte { return fmt.Appendf(nil, "%d commands", k.index) }

func (k *kept) Open(name string) (io.ReadCloser, error) {
	if name != "commands" {
		return nil, fmt.Errorf("no file %s", name)
	}
	return io.NopCloser(bytes.NewReader(k.data)), nil
}

func (k *kept) Close() {}

func (l *list) Install(ctx context.Context, manifest []byte, fetch Fetch) error {
	var index uint64
	if _, err := fmt.Sscanf(string(manifest), "%d commands", &index); err != nil {
		return err
	}
	r, err := fetch(ctx, "commands", 0)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	l.commands, l.indexes = nil, nil
	if err := json.Unmarshal(data, &[]any{&l.commands, &l.indexes}); err != nil {
		return err
	}
	l.applied = index
	return l.Sync()
}

func (l *list) String() string { return strings.Join(l.commands, " ") }
