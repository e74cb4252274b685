package node

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

// deviceModel is what is known of devices: by name, and then by the time from which it holds.
type deviceModel map[string]map[int64]registry.Description

// at returns what a device is at a time.
func (m deviceModel) at(name string, ns int64) (d registry.Description, ok bool) {
	last := int64(-1)
	for fromNs, one := range m[name] {
		if fromNs <= ns && fromNs > last {
			d, last, ok = one, fromNs, true
		}
	}
	return d, ok
}

func (m deviceModel) clone() deviceModel {
	out := deviceModel{}
	for name, all := range m {
		out[name] = maps.Clone(all)
	}
	return out
}

// TestDeviceChangesModel makes random changes, renames, exchanges and removals of devices, and
// compares the registry with a map: now, at other times, as of earlier ones and after a restart.
func TestDeviceChangesModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	x := &deviceChanges{t: t, rng: rand.New(rand.NewPCG(seed, 0)), model: deviceModel{}}
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	x.c = dial(t, n)
	type past struct {
		acqNs int64
		model deviceModel
	}
	var pasts []past
	for round := range 40 {
		x.step()
		x.compare(x.model, client.When{AtNs: 1 + x.rng.Int64N(20)})
		pasts = append(pasts, past{horizonOf(t, x.c), x.model.clone()})
		if round == 20 {
			if err := n.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			n = openTest(t, Options{Dir: dir})
			x.c = dial(t, n)
		}
		p := pasts[x.rng.IntN(len(pasts))]
		x.compare(p.model, client.When{AsOfNs: p.acqNs, AtNs: 1 + x.rng.Int64N(20)})
		x.compare(p.model, client.When{AsOfNs: p.acqNs})
	}
}

func horizonOf(t *testing.T, c *client.Client) int64 {
	t.Helper()
	h, err := c.Horizon(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

type deviceChanges struct {
	t     *testing.T
	rng   *rand.Rand
	c     *client.Client
	model deviceModel
}

func (x *deviceChanges) name() string { return fmt.Sprintf("t%d", x.rng.IntN(12)) }

// known returns a device that is there, empty if there is none.
func (x *deviceChanges) known() string {
	names := slices.Sorted(maps.Keys(x.model))
	if len(names) == 0 {
		return ""
	}
	return names[x.rng.IntN(len(names))]
}

func (x *deviceChanges) step() {
	x.t.Helper()
	name, other := x.known(), x.name()
	_, taken := x.model[other]
	switch op := x.rng.IntN(6); {
	case op == 0 && name != "" && !taken:
		fromNs := 1 + x.rng.Int64N(20)
		if _, err := x.c.RenameDevice(x.t.Context(), 1, name, other, fromNs); err != nil {
			x.t.Fatal(err)
		}
		if d, ok := x.model.at(name, fromNs); ok {
			x.model[name][fromNs] = d
		}
		for from, d := range x.model[name] {
			if from >= fromNs {
				d.Name = other
				x.model[name][from] = d
			}
		}
		x.model[other] = x.model[name]
		delete(x.model, name)
	case op == 1 && name != "":
		_, n, err := x.c.RemoveDevice(x.t.Context(), 1, name)
		if err != nil || n != len(x.model[name]) {
			x.t.Fatalf("%d descriptions removed, want %d; %v", n, len(x.model[name]), err)
		}
		delete(x.model, name)
	case op == 2 && name != "" && len(x.model[name]) > 0:
		froms := slices.Sorted(maps.Keys(x.model[name]))
		fromNs := froms[x.rng.IntN(len(froms))]
		if _, err := x.c.RemoveDescription(x.t.Context(), 1, name, fromNs); err != nil {
			x.t.Fatal(err)
		}
		delete(x.model[name], fromNs)
		if i := len(froms) - 2; i >= 0 && froms[i+1] == fromNs { // the last one has the name
			d := x.model[name][froms[i]]
			d.Name = name
			x.model[name][froms[i]] = d
		}
	default:
		x.change()
	}
}

// change makes some changes at once, of some devices twice.
func (x *deviceChanges) change() {
	x.t.Helper()
	var changes []client.DeviceChange
	want := client.DeviceChanges{}
	for range 1 + x.rng.IntN(20) {
		c := client.DeviceChange{Name: x.name(), FromNs: 1 + x.rng.Int64N(20)}
		kind := []string{"", "meter", "valve"}[x.rng.IntN(3)]
		switch x.rng.IntN(4) {
		case 0:
			c.Type = &kind
		case 1:
			c.Attributes = map[string]registry.Value{"floor": registry.Number(float64(
				x.rng.IntN(3))), "owner": {}}
		case 2:
			c.Attributes = map[string]registry.Value{"owner": registry.Text(kind)}
		case 3:
			c.Whole, c.Type = true, &kind
		}
		changes = append(changes, c)
		if x.model[c.Name] == nil {
			x.model[c.Name] = map[int64]registry.Description{}
			want.Created++
		}
		d, known := x.model.at(c.Name, c.FromNs)
		before := d
		c.Apply(&d)
		d.Name = c.Name
		if known && registry.Equal(&before, &d) {
			want.Unchanged++
			continue
		}
		want.Described++
		x.model[c.Name][c.FromNs] = d
		if slices.Max(slices.Collect(maps.Keys(x.model[c.Name]))) > c.FromNs {
			want.Followed++
		}
	}
	seen, err := x.c.PreviewChanges(x.t.Context(), 1, changes)
	if err != nil || seen != want {
		x.t.Fatalf("preview %+v, want %+v; %v", seen, want, err)
	}
	did, err := x.c.ChangeDevices(x.t.Context(), 1, changes)
	if err != nil || did != want {
		x.t.Fatalf("%+v, want %+v; %v", did, want, err)
	}
}

// compare compares all devices, and those that a selector chooses, with a model.
func (x *deviceChanges) compare(m deviceModel, when client.When) {
	x.t.Helper()
	atNs := when.AtNs
	if atNs == 0 {
		atNs = 1 << 40
	}
	for _, selector := range []string{"", "type=meter", "floor>=1"} {
		var chosen *registry.Selector
		if selector != "" {
			var err error
			if chosen, err = registry.ParseSelector(selector); err != nil {
				x.t.Fatal(err)
			}
		}
		want := map[string]registry.Description{}
		for name := range m {
			d, ok := m.at(name, atNs)
			if ok && (chosen == nil || chosen.Match(&d)) || !ok && chosen == nil {
				want[name] = d
			}
		}
		all, err := x.c.ListDevices(x.t.Context(), 1, selector, when)
		if err != nil || len(all) != len(want) {
			x.t.Fatalf("%q %+v: %d devices, want %d: %v; %v", selector, when, len(all),
				len(want), want, err)
		}
		for i := range all {
			w, ok := want[all[i].Name]
			w.Name = all[i].Name // that which it has, and not that of the description
			if !ok || !registry.Equal(&w, &all[i].Description) {
				x.t.Fatalf("%q %+v: %+v, want %+v", selector, when, all[i], w)
			}
		}
	}
}
