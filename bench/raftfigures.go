package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/node/replica"
)

// What is promised of replicas.
const (
	barCommit   = 1.5 // M records/s
	barSimulate = 500 // times real time
)

// withTrio opens three nodes, does something with them and removes them.
func (c *clusterRun) withTrio(
	ctx context.Context, groups replica.GroupID, do func(*trio) error,
) error {
	dir := filepath.Join(c.work, "trio")
	t, err := openTrio(ctx, dir, groups)
	if err == nil {
		err = do(t)
	}
	return errors.Join(err, t.close(), os.RemoveAll(dir))
}

// commit measures what goes through the log of replicas alone: three nodes in this process, without
// stores, gossip and TLS. What clusters of processes take is measured by nodes.
func (c *clusterRun) commit(ctx context.Context) error {
	return c.withTrio(ctx, 16, func(t *trio) error {
		batch := randomBatch()
		if _, err := t.load(ctx, batch, 500); err != nil { // to warm up
			return err
		}
		before, err := process.OwnTime()
		if err != nil {
			return err
		}
		began := time.Now()
		batches, err := t.load(ctx, batch, int64(c.commitRecords)/batchRecords)
		if err != nil {
			return err
		}
		took := time.Since(began)
		after, err := process.OwnTime()
		if err != nil {
			return err
		}
		records := batches * batchRecords
		c.figures.AtLeast("committed by three replicas in one process, without stores",
			rate(records, took), "M records/s",
			barCommit)
		c.figures.Add("processor time of that, of all three", (after-before).Seconds()/
			float64(records)*1e6, "s/M records")
		return nil
	})
}

var simulatedTime = regexp.MustCompile(`([0-9]+) simulated s`)

// simulate runs the simulator, which is a test, on every core with seeds of its own, and takes from
// what the tests say how much time was simulated.
func (c *clusterRun) simulate(ctx context.Context) error {
	binary, err := filepath.Abs(filepath.Join(c.work, "replica.test"))
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./node/replica")
	build.Dir = ".."
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("simulate: %w\n%s", err, text)
	}
	cores := runtime.NumCPU()
	each := (c.seeds + cores - 1) / cores
	simulated, errs := make([]float64, cores), make([]error, cores)
	used := make([]time.Duration, cores)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range cores {
		wg.Go(func() {
			cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.run", "TestSimulation$")
			cmd.Dir = filepath.Join("..", "node", "replica")
			cmd.Env = append(os.Environ(), fmt.Sprintf("PENTAD_SEEDS=%d", each),
				fmt.Sprintf("PENTAD_SEED=%d", 1+i*each))
			text, err := cmd.CombinedOutput()
			found := simulatedTime.FindSubmatch(text)
			switch {
			case err != nil:
				errs[i] = fmt.Errorf("simulate: %w\n%s", err, text)
			case found == nil:
				errs[i] = fmt.Errorf("the simulator does not say how much it simulated:\n%s", text)
			default:
				simulated[i], errs[i] = strconv.ParseFloat(string(found[1]), 64)
				used[i] = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	all, processor := 0.0, time.Duration(0)
	for i := range cores {
		all, processor = all+simulated[i], processor+used[i]
	}
	c.figures.AtLeast(fmt.Sprintf("simulated time / real time, on %d cores", cores),
		all/took.Seconds(), "ratio", barSimulate)
	c.figures.Add("simulated time / processor time", all/processor.Seconds(), "ratio")
	return errors.Join(errs...)
}

// probes do something again and again, each by itself, and know how long it was not done.
type probes struct {
	wg     sync.WaitGroup
	cancel []context.CancelFunc

	mu   sync.Mutex // guards everything below
	last []time.Time
	gaps []time.Duration
	errs []error
}

// start begins a probe. It ends at its first error, which stop returns.
func (p *probes) start(ctx context.Context, do func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	p.cancel = append(p.cancel, cancel)
	p.mu.Lock()
	i := len(p.last)
	p.last, p.gaps = append(p.last, time.Now()), append(p.gaps, 0)
	p.mu.Unlock()
	p.wg.Go(func() {
		for ctx.Err() == nil {
			err := do(ctx)
			p.mu.Lock()
			switch {
			case err == nil:
				p.gaps[i] = max(p.gaps[i], time.Since(p.last[i]))
				p.last[i] = time.Now()
			case ctx.Err() == nil:
				p.errs = append(p.errs, err)
				cancel()
			}
			p.mu.Unlock()
			_ = pause(ctx, 10*time.Millisecond) // the loop looks at ctx
		}
	})
}

// reset forgets how long things took so far.
func (p *probes) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.gaps)
}

// longest returns, of some probes, the longest time without success, the present one included.
func (p *probes) longest(which []int) (out []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range which {
		out = append(out, max(p.gaps[i], time.Since(p.last[i])))
	}
	return out
}

func (p *probes) stop() error {
	for _, cancel := range p.cancel {
		cancel()
	}
	p.wg.Wait()
	return errors.Join(p.errs...)
}
