package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/demodata"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/release"
	"github.com/pentad-db/pentad/sdk/client"
)

// demoFlags choose the size and the place of the demo.
type demoFlags struct {
	dir, listen  string
	reset        bool
	meters, days int
	sized        bool // meters or days were given
}

// Limits of the demo: what a laptop holds.
const (
	maxDemoMeters = 100_000
	maxDemoDays   = 3660
)

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Load sample meter readings and query them",
		Long: `Generate a month of readings of 500 meters, 3 quantities each, every 15 minutes: 2 % arrive late and
1 % are corrected. Each meter has a name, a building, a floor and a place. Load them over the
network into a node in this process, then query each of the five axes, devices by what is known of
them, a corrected reading, and plugins. At the end, encrypt the power of one town, have a node
without a key add it up, and decrypt the sum.

On a terminal the node then serves until Ctrl-C. The data are kept; --reset replaces them.`,
		Args: cli.NoCommand,
		Example: `  pentad demo
  pentad demo --meters 50 --days 7 --dir ./demo
  pentad demo --reset`,
		RunE: func(c *cobra.Command, _ []string) error {
			f.sized = c.Flags().Changed("meters") || c.Flags().Changed("days")
			return a.demo(c.Context(), &f)
		},
	}
	listen := "127.0.0.1:0"
	if a.StdoutTerminal {
		listen = cli.DefaultAddr
	}
	flags := c.Flags()
	flags.StringVar(&f.dir, "dir", a.dataDir("demo"), "data directory")
	flags.StringVar(&f.listen, "listen", listen, "address of the node")
	flags.BoolVar(&f.reset, "reset", false, "remove the data of an earlier demo and start again")
	flags.IntVar(&f.meters, "meters", 500, "number of meters")
	flags.IntVar(&f.days, "days", 30, "number of days")
	return c
}

func (a *app) demo(ctx context.Context, f *demoFlags) (err error) {
	if f.meters < 1 || f.meters > maxDemoMeters || f.days < 2 || f.days > maxDemoDays {
		return cli.Usagef("--meters or --days: out of range; use 1 to %d meters and 2 to %d days",
			maxDemoMeters, maxDemoDays)
	}
	marker, err := openDemo(f, a.Now())
	if err != nil {
		return err
	}
	n, err := node.Open(ctx, node.Options{Dir: filepath.Join(f.dir, "node"), Listen: f.listen,
		Logger: a.LoggerAt(slog.LevelWarn)})
	if err != nil {
		return err
	}
	defer func() { err = cli.FirstError(err, a.CloseNode(n)) }()
	a.Addr = n.Addr().String()
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	fmt.Fprintf(a.Stdout, "pentad %s   data %s   (pentad demo --reset to start over)\n",
		release.Read().Full(), f.dir)
	if err := a.demoData(ctx, n, db, f.dir, marker); err != nil {
		return err
	}
	s := &demoShow{app: a, db: db, plan: marker.plan(), records: marker.Records,
		home: f.dir, serves: a.StdoutTerminal, dir: filepath.Join(f.dir, "node", "store")}
	if err := s.run(ctx); err != nil {
		return err
	}
	if !a.StdoutTerminal {
		return nil
	}
	fmt.Fprintf(a.Stdout, "\nlistening on http://%s until Ctrl-C\n", a.Addr)
	<-ctx.Done()
	return nil
}

// demoMarker is the file that says what the directory holds. It is written before the first row
// and again when all rows are stored, so that half a demo is not taken for a whole one.
type demoMarker struct {
	Meters  int       `json:"meters"`
	Days    int       `json:"days"`
	End     time.Time `json:"end"`
	Records int64     `json:"records"`
	Whole   bool      `json:"whole"`
}

const demoMarkerName = "pentad-demo.json"

func (m *demoMarker) plan() demodata.Plan {
	return demodata.Plan{Meters: m.Meters, Days: m.Days, End: m.End}
}

func (m *demoMarker) save(dir string) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, demoMarkerName), append(text, '\n'), 0o644)
	}
	return err
}

// openDemo prepares the directory. It removes nothing that a demo has not made.
func openDemo(f *demoFlags, now time.Time) (*demoMarker, error) {
	m := &demoMarker{}
	text, err := os.ReadFile(filepath.Join(f.dir, demoMarkerName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if entries, _ := os.ReadDir(f.dir); len(entries) > 0 {
			return nil, cli.Usagef("--dir %s: not the directory of a demo; use an empty directory",
				f.dir)
		}
	case err != nil:
		return nil, err
	case json.Unmarshal(text, m) != nil:
		return nil, fmt.Errorf("%s: damaged; remove the directory %s",
			filepath.Join(f.dir, demoMarkerName), f.dir)
	case f.reset:
		for _, name := range []string{"node", demoSealedName} {
			if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
				return nil, err
			}
		}
	case !m.Whole:
		return nil,
			fmt.Errorf("demo in %s: an earlier run was interrupted; use --reset to start again",
				f.dir)
	case f.sized && (m.Meters != f.meters || m.Days != f.days):
		return nil,
			cli.Usagef("--dir %s: holds a demo of %s meters and %d days; use --reset to replace it",
				f.dir, output.Thousands(m.Meters), m.Days)
	default:
		return m, nil
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, err
	}
	m = &demoMarker{Meters: f.meters, Days: f.days, End: now.UTC().Truncate(24 * time.Hour)}
	return m, m.save(f.dir)
}

// demoData loads the readings, unless they are there.
func (a *app) demoData(ctx context.Context, n *node.Node, db *client.Client, dir string,
	m *demoMarker) error {
	for _, q := range demodata.Quantities() { // so that no command needs --type
		if err := n.SetQuantity(q); err != nil {
			return err
		}
	}
	p := m.plan()
	what := fmt.Sprintf("%s meters, %d quantities, %d days", output.Thousands(p.Meters),
		demodata.NumQuantities, p.Days)
	if m.Whole {
		fmt.Fprintf(a.Stdout, "found %s: %s records\n", what, output.Thousands(m.Records))
		return nil
	}
	mids, err := demoDevices(ctx, db, p)
	if err != nil {
		return err
	}
	start := a.Now()
	w := db.NewWriter(client.WriterOptions{})
	bar := a.NewProgress("load", int64(p.About()), true)
	var counts [3]int64
	var payload []byte
	pending := int64(0)
	for r := range p.All() {
		r.Key.MID = mids[r.Key.MID]
		payload = r.AppendPayload(payload[:0])
		if err = w.Add(ctx, r.Key, payload); err != nil {
			break
		}
		counts[r.Kind]++
		if pending++; pending == demoTell {
			bar.Add(pending, counts[0]+counts[1]+counts[2])
			pending = 0
		}
	}
	err = cli.FirstError(err, w.Close(ctx))
	bar.Close()
	if err != nil {
		return err
	}
	loaded := a.Now()
	took := loaded.Sub(start)
	// The log keeps what is new; sealed segments are what a node answers from in the long run.
	if err := n.Seal(ctx); err != nil {
		return err
	}
	m.Records, m.Whole = counts[0]+counts[1]+counts[2], true
	if err := m.save(dir); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "stored %s: %s records (%s late, %s corrections)\n"+
		"over the network in %s, %s records/s, each batch synced; sealed in %s\n",
		what, output.Thousands(m.Records), output.Thousands(counts[demodata.Late]),
		output.Thousands(counts[demodata.Correction]), output.Duration(took),
		output.Thousands(int64(float64(m.Records)/max(took.Seconds(), 1e-3))),
		output.Duration(a.Now().Sub(loaded)))
	return nil
}

// demoTell is after how many rows the bar is told.
const demoTell = 4096
