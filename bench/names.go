package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/peers/postgres"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// Bars of names and descriptions, at a million devices.
const (
	barSelectUs     = 300
	barSelectorToID = 1.3
	barPeers        = 5
	barRegister     = 100_000
	barDeviceBytes  = 300
	barOpenS        = 2
)

// namesFigures is one run of the figures of described devices.
type namesFigures struct {
	out     io.Writer
	devices int
	each    int // readings of a device
	rounds  int
	systems string
	dir     string

	work    string
	layout  townLayout
	town    *town
	figures figure.List
}

func namesCommand(out io.Writer) *cobra.Command {
	n := namesFigures{out: out}
	c := &cobra.Command{
		Use:   "names",
		Short: "Compare questions by descriptions of devices with joins",
		Long: `Ask for the readings above a value, in a time frame, of the devices of a type in a rectangle,
between two altitudes, of a project: as one question with a selector, with the ids of the devices
given, and as a join of a table of devices with one of readings in PostgreSQL with PostGIS and in
DuckDB. First devices are scattered at random, whatever their ids; then those of a building were
registered together, and buildings along streets. Each system is asked the same boxes in turn; their
answers are compared with those of a loop over all devices, and a wrong one ends the run with exit
code 1. A bar that does not hold is printed, and the exit code is 0: machines differ. A system that
is not installed is left out.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return n.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&n.devices, "devices", 1_000_000, "described devices")
	f.IntVar(&n.each, "each", 20, "readings of each")
	f.IntVar(&n.rounds, "rounds", 21, "boxes, each asked of all systems in turn")
	f.StringVar(&n.systems, "systems", "postgis,duckdb", "which to compare with")
	f.StringVar(&n.dir, "out", "out", "folder of names.json, and of the data while it runs")
	return c
}

func (n *namesFigures) say(format string, args ...any) {
	fmt.Fprintf(n.out, format+"\n", args...)
}

// registryKinds are the systems that pentad is compared with.
func registryKinds() []system.RegistryKind {
	return append(postgres.Registries(), cgoRegistries()...)
}

func (n *namesFigures) run(ctx context.Context) (err error) {
	if n.devices < 1000 || n.each < 1 || n.rounds < 1 {
		return fmt.Errorf("--devices %d, --each %d, --rounds %d: at least 1000, 1 and 1", n.devices,
			n.each, n.rounds)
	}
	n.say("%s", machine())
	for _, layout := range []townLayout{scattered, inStreets} {
		if err := n.ofTown(ctx, layout); err != nil {
			return err
		}
	}
	n.say("")
	if err := n.figures.Table(n.out); err != nil {
		return err
	}
	path := filepath.Join(n.dir, "names.json")
	n.say("\n%d of %d bars do not hold; %s; %s written", missed(n.figures), bars(n.figures),
		machine(), path)
	return n.figures.Save(path)
}

// ofTown measures all figures of a town, and removes its data.
func (n *namesFigures) ofTown(ctx context.Context, layout townLayout) (err error) {
	n.work = filepath.Join(n.dir, "work-names")
	if err := os.RemoveAll(n.work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(n.work)) }()
	n.layout, n.town = layout, newTown(n.devices, n.each, layout)
	mine, err := n.own(ctx)
	if err != nil {
		return fmt.Errorf("pentad: %w", err)
	}
	defer func() { err = errors.Join(err, mine.Close()) }()
	return n.compare(ctx, mine)
}

// own registers all devices and readings in pentad and measures what only it is asked, of scattered
// devices.
func (n *namesFigures) own(ctx context.Context) (*pentad.Registry, error) {
	dir := filepath.Join(n.work, "pentad")
	db, err := pentad.OpenRegistry(ctx, dir)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := n.register(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	registered := time.Since(began)
	if err := errors.Join(n.readings(ctx, db), db.Settle(ctx)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if n.layout != scattered {
		return db, nil
	}
	n.figures.AtLeast("registration: names and descriptions over HTTP",
		float64(n.devices)/registered.Seconds(), "devices/s", barRegister)
	if err := db.Close(); err != nil {
		return nil, err
	}
	began = time.Now()
	if db, err = pentad.OpenRegistry(ctx, dir); err != nil {
		return nil, err
	}
	opened := time.Since(began)
	box := n.town.plain(0)
	if _, _, err := db.Select(ctx, &box); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	n.figures.AtMost("from the start until the first answer by selector",
		time.Since(began).Seconds(), "s", barOpenS)
	n.figures.Add("of these until the node is open", opened.Seconds(), "s")
	return db, n.selections(ctx, db)
}

func (n *namesFigures) register(ctx context.Context, db system.Registry) error {
	const atOnce = 10_000
	for from := 0; from < n.devices; from += atOnce {
		some := n.town.devices[from:min(n.devices, from+atOnce)]
		if err := db.Register(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (n *namesFigures) readings(ctx context.Context, db system.Registry) error {
	var b record.Batch
	for hour := range n.each {
		for from := 0; from < n.devices; from += workload.BatchRows {
			n.town.batch(&b, hour, from, min(n.devices, from+workload.BatchRows))
			if err := db.Put(ctx, &b); err != nil {
				return err
			}
		}
	}
	return nil
}

// selections measures how long some 1,000 devices take to be selected by type and rectangle.
func (n *namesFigures) selections(ctx context.Context, db *pentad.Registry) error {
	var took, found []float64
	for round := range n.rounds {
		box := n.town.plain(round)
		want := n.town.count(&box)
		for range 3 { // the last is timed
			devices, spent, err := db.Select(ctx, &box)
			if err != nil {
				return err
			}
			if devices != want {
				return fmt.Errorf("WRONG ANSWER: %d devices selected, want %d", devices, want)
			}
			if round > 0 {
				took = append(took, float64(spent)/1e3)
			}
			found = append(found, float64(devices))
		}
	}
	n.figures.AtMost("selection by type and rectangle", medianOf(took), "us", barSelectUs)
	n.figures.Add("devices that it finds", medianOf(found), "")
	n.figures.AtMost("index of descriptions", float64(db.IndexBytes())/float64(n.devices),
		"B/device", barDeviceBytes)
	return nil
}

// peer is a system that is compared, and how long its answers took.
type peer struct {
	name string
	ask  func(ctx context.Context, w *system.Where) (int, float64, error)
	took []float64
}

// compare asks all systems in turn.
func (n *namesFigures) compare(ctx context.Context, mine *pentad.Registry) error {
	var ids record.RangeSet // of the box: to find them is not measured
	peers := []*peer{{name: "pentad by selector", ask: mine.Ask},
		{name: "pentad by ids", ask: func(ctx context.Context, w *system.Where) (int, float64,
			error) {
			return mine.AskByID(ctx, w, ids)
		}}}
	for _, kind := range registryKinds() {
		if !strings.Contains(","+n.systems+",", ","+kind.Name+",") {
			continue
		}
		db, err := n.load(ctx, kind)
		if missing := system.MissingError(""); errors.As(err, &missing) {
			n.say("left out: %s: %s", kind.Name, missing)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
		defer db.Close()
		peers = append(peers, &peer{name: kind.Name, ask: db.Ask})
	}
	// What was asked before leaves its marks in caches and threads. So pentad's own follow each
	// other and another system in turn.
	turn := slices.Clone(peers[2:])
	turn = slices.Insert(turn, len(turn)/2, peers[:2]...)
	var rows []float64
	for round := range n.rounds {
		w := n.town.scenario(round)
		count, sum := n.town.answer(&w)
		ids = n.town.ids(&w)
		rows = append(rows, float64(count))
		for _, p := range turn {
			if err := p.round(ctx, &w, count, sum); err != nil {
				return err
			}
		}
		slices.Reverse(turn)
	}
	scenario := "scenario" // of scattered devices, as in earlier records
	if n.layout == inStreets {
		scenario = "scenario in streets"
	}
	n.figures.Add("readings that the "+scenario+" finds", medianOf(rows), "")
	for _, p := range peers {
		n.figures.Add(scenario+": "+p.name, medianOf(p.took)/1e3, "us")
	}
	n.figures.AtMost(scenario+" by selector, to ids given",
		ratioOf(peers[0].took, peers[1].took), "", barSelectorToID)
	for _, p := range peers[2:] {
		n.figures.AtLeast(scenario+": "+p.name+", to pentad by selector",
			ratioOf(p.took, peers[0].took), "", barPeers)
	}
	return nil
}

// round asks once to warm and check, and then as often as is cheap; the fastest counts.
func (p *peer) round(ctx context.Context, w *system.Where, count int, sum float64) error {
	const times = 5
	var best time.Duration
	for i := range times {
		began := time.Now()
		rows, total, err := p.ask(ctx, w)
		took := time.Since(began)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if rows != count || math.Abs(total-sum) > 1e-6 { // in any order
			return fmt.Errorf("WRONG ANSWER of %s: %d readings, sum %v; want %d, %v", p.name, rows,
				total, count, sum)
		}
		if i > 0 {
			best = min(took, cmp.Or(best, took))
		}
	}
	p.took = append(p.took, float64(best))
	return nil
}

// load fills another system.
func (n *namesFigures) load(ctx context.Context, kind system.RegistryKind) (
	db system.Registry, err error,
) {
	dir := filepath.Join(n.work, kind.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	began := time.Now()
	if db, err = kind.Open(ctx, dir); err != nil {
		return nil, err
	}
	if err := errors.Join(n.register(ctx, db), n.readings(ctx, db), db.Settle(ctx)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	n.say("%s: loaded in %.0f s; %s", kind.Name, time.Since(began).Seconds(), kind.About)
	return db, nil
}
