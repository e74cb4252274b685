package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// openedName is the command that opens a node in a process of its own, where its memory can be told
// from what loading has left behind.
const openedName = "opened"

// openedNode is what such a process found.
type openedNode struct {
	OpenMs  float64
	Opened  memory
	Asked   memory  // after the queries
	IdleCPU float64 // share of a core that the open node used while nothing was asked
	Stats   store.Stats
}

// memory is what a process holds after a collection.
type memory struct {
	HeapBytes int64 // in use
	process.Resident
}

func openedCommand(in io.Reader, out io.Writer) *cobra.Command {
	idle := time.Duration(0)
	c := &cobra.Command{
		Use:    openedName + " DIR",
		Short:  "Open a node, wait, ask the queries of standard input, and tell what it holds",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var queries []system.Query
			if err := json.NewDecoder(in).Decode(&queries); err != nil {
				return fmt.Errorf("queries: %w", err)
			}
			found, err := openNode(c.Context(), args[0], idle, queries)
			if err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(found)
		},
	}
	c.Flags().DurationVar(&idle, "idle", 0, "how long to watch the idle node")
	return c
}

func openNode(
	ctx context.Context, dir string, idle time.Duration, queries []system.Query,
) (found openedNode, err error) {
	began := time.Now()
	n, err := node.Open(ctx, node.Options{Dir: dir})
	if err != nil {
		return found, err
	}
	found.OpenMs = ms(time.Since(began))
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()
	if found.Opened, err = held(); err != nil {
		return found, err
	}
	found.Stats = n.StoreStats()
	if found.IdleCPU, err = idleCPU(ctx, os.Getpid(), idle); err != nil {
		return found, err
	}
	db := pentad.Of(n, nil)
	for _, q := range queries {
		if err := q.Normalize(); err != nil {
			return found, err
		}
		if _, err := db.Ask(ctx, &q, func(*record.Batch) {}); err != nil {
			return found, err
		}
	}
	found.Asked, err = held()
	return found, err
}

// held collects garbage and returns what is held of memory.
func held() (m memory, err error) {
	runtime.GC() // the first only empties pools
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.HeapBytes = int64(stats.HeapInuse)
	m.Resident, err = process.Memory(os.Getpid())
	return m, err
}

const (
	calmFor  = 500 * time.Millisecond
	calmMost = 20 * time.Second
)

// calm waits until a process has done what it prepares after its start: until it takes no processor
// time for a while, but not for long.
func calm(ctx context.Context, pid int) error {
	for end := time.Now().Add(calmMost); time.Now().Before(end); {
		before, err := process.CPU(pid)
		if err != nil {
			return err
		}
		if err := until(ctx, time.Now().Add(calmFor)); err != nil {
			return err
		}
		after, err := process.CPU(pid)
		if err != nil || after == before {
			return err
		}
	}
	return nil
}

// idleCPU returns which share of a core a process uses for a time.
func idleCPU(ctx context.Context, pid int, idle time.Duration) (float64, error) {
	if idle == 0 {
		return 0, nil
	}
	before, err := process.CPU(pid)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := until(ctx, began.Add(idle)); err != nil {
		return 0, err
	}
	after, err := process.CPU(pid)
	return (after - before).Seconds() / time.Since(began).Seconds(), err
}

// openElsewhere has another process of this program open a node.
func openElsewhere(
	ctx context.Context, dir string, idle time.Duration, queries []system.Query,
) (found openedNode, err error) {
	self, err := os.Executable()
	if err != nil {
		return found, err
	}
	c := exec.CommandContext(ctx, self, openedName, "--idle", idle.String(), dir)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return found, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return found, err
	}
	if err := c.Start(); err != nil {
		return found, err
	}
	err = errors.Join(json.NewEncoder(in).Encode(queries), in.Close(),
		json.NewDecoder(out).Decode(&found))
	return found, errors.Join(err, c.Wait())
}
