package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
)

// neighbours is one run of small questions of a tenant beside long ones of another.
type neighbours struct {
	out     io.Writer
	dir     string
	pentad  string
	devices int // of the other tenant
	loops   int
	rounds  int
	piece   time.Duration
	figures figure.List
}

func neighboursCommand(out io.Writer) *cobra.Command {
	n := neighbours{out: out}
	c := &cobra.Command{
		Use:   "neighbours",
		Short: "Measure small queries of a tenant while another one runs long ones",
		Long: `Start a node as a process of its own, and ask small questions of a tenant over HTTP, one after
another: alone, and while clients of another tenant ask without a pause for everything that it has.
These read and throw away what they get. Figures are medians over rounds of the ratio of medians,
for each kind of long question; a bar that does not hold is printed, and the exit code is 0.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return n.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&n.devices, "devices", 5000, "devices of the other tenant, of 400 records each")
	f.IntVar(&n.loops, "clients", 8, "clients of the other tenant")
	f.IntVar(&n.rounds, "rounds", 3, "rounds of each measurement")
	f.DurationVar(&n.piece, "piece", time.Second, "how long a measurement takes in each round")
	f.StringVar(&n.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.StringVar(&n.dir, "out", "out", "folder of neighbours.json, and of the data while it runs")
	return c
}

// longQuestions are what the other tenant asks for.
var longQuestions = []struct{ name, path string }{
	{"rows", "/v1/records?cid=2"},
	{"rows in order", "/v1/records?cid=2&order=acq&keys=1"},
	{"latest state", "/v1/latest?cid=2&moid=1"},
	{"a sum over everything", "/v1/plugins/stats/run?cid=2&fresh=1"},
	{"windows of a day", "/v1/windows?cid=2&every=1d&agg=stats&group=mid"},
}

func (n *neighbours) run(ctx context.Context) (err error) {
	if n.rounds < 1 || n.piece <= 0 || n.devices < 1 || n.loops < 1 {
		return errors.New("--devices, --clients, --rounds and --piece must be above 0")
	}
	dir := filepath.Join(n.dir, "work-neighbours")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := n.fill(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintln(n.out, machine())
	s, err := serve(ctx, n.pentad, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	db, err := client.Dial(ctx, s.addr)
	if err != nil {
		return err
	}
	defer db.Close()
	names := []string{"a device's day", "stats of 50 devices"}
	asks := []func(context.Context) error{
		func(ctx context.Context) error { return askRows(ctx, db) },
		func(ctx context.Context) error { return askStats(ctx, db) }}
	p := pluginFigures{inTurns: inTurns{piece: n.piece / tenantPieces}}
	for _, q := range longQuestions {
		alone, beside := make([][]float64, len(asks)), make([][]float64, len(asks))
		asked := 0
		for range n.rounds {
			if err := p.askTenant(ctx, asks, alone); err != nil {
				return err
			}
			end := n.loop(ctx, s.addr+q.path)
			err := p.askTenant(ctx, asks, beside)
			some, failed := end()
			if asked += some; err != nil || failed != nil {
				return errors.Join(err, failed)
			}
		}
		for i, name := range names {
			n.figures.AtMost(fmt.Sprintf("%s beside %d x %s / alone", name, n.loops, q.name),
				ratioOf(beside[i], alone[i]), figure.Ratio, barTenants)
			n.figures.Add(name+" alone", medianOf(alone[i]), "us")
		}
		n.figures.Add(q.name+", answers a second", float64(asked)/
			(float64(len(asks)*n.rounds)*n.piece.Seconds()), "1/s")
	}
	if err := n.figures.Table(n.out); err != nil {
		return err
	}
	return n.figures.Save(filepath.Join(n.dir, "neighbours.json"))
}

// fill stores and seals the readings of both tenants.
func (n *neighbours) fill(ctx context.Context, dir string) (err error) {
	db, err := node.Open(ctx, node.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	for device := range n.devices {
		for _, cid := range []int32{hostileTenant, goodTenant} {
			if cid == goodTenant && device >= tenantDevices {
				continue
			}
			if _, err := db.Put(ctx, tenantBatch(cid, device), store.WriterSeq{}); err != nil {
				return err
			}
		}
	}
	return db.Settle(ctx)
}

// loop asks for url again and again with all clients. It returns when each has begun; end ends them
// and says how many answers came whole.
func (n *neighbours) loop(
	ctx context.Context, url string,
) (end func() (answers int, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	var all, begun sync.WaitGroup
	answers, failed := make([]int, n.loops), make([]error, n.loops)
	for i := range n.loops {
		begun.Add(1)
		all.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for ctx.Err() == nil && failed[i] == nil {
				err := discard(ctx, url, first)
				if ctx.Err() == nil {
					answers[i]++
					failed[i] = err
				}
			}
		})
	}
	begun.Wait()
	return func() (sum int, err error) {
		cancel()
		all.Wait()
		for _, a := range answers {
			sum += a
		}
		return sum, errors.Join(failed...)
	}
}

// discard reads an answer to its end.
func discard(ctx context.Context, url string, begun func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	begun()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // the status says enough
		return fmt.Errorf("%s: %s: %s", url, resp.Status, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
