package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
)

// TestManyNamesAtOnce names overlapping thousands of devices by several clients at the same time:
// more than one batch, one question or one claim of ids takes. A restart changes nothing.
func TestManyNamesAtOnce(t *testing.T) {
	rounds.NotUnderRace(t, "TestNameDevicesAtOnce is the same with few")
	opt := Options{Dir: t.TempDir(), Store: store.Options{SealRows: 5000}}
	n := openTest(t, opt)
	m := &manyNames{T: t, ids: map[string]int64{}}
	m.nameAll([]*client.Client{dial(t, n), dial(t, n), dial(t, n)}, 12_000)
	m.check(dial(t, n))
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.check(dial(t, openTest(t, opt)))
}

// TestNamesWhileGroupsSplit names devices by all nodes of a cluster while its groups are split.
func TestNamesWhileGroupsSplit(t *testing.T) {
	c := openTogether(t, 3, 1)
	m := &manyNames{T: t, ids: map[string]int64{}}
	var clients []*client.Client
	for _, n := range c.nodes {
		clients = append(clients, dial(t, n))
	}
	var wg sync.WaitGroup
	wg.Go(func() { m.nameAll(clients, 1500) })
	c.split(c.nodes[0], 0, 2)
	c.split(c.nodes[1], 0, 4)
	wg.Wait()
	c.until("all is split", c.parted)
	m.nameAll(clients, 1500)
	for _, c := range clients {
		m.check(c)
	}
}

// manyNames are the ids of names as clients were told.
type manyNames struct {
	*testing.T
	mu      sync.Mutex
	ids     map[string]int64
	created int
}

// nameAll names that many devices by each client, in another order and in several calls.
func (m *manyNames) nameAll(clients []*client.Client, names int) {
	m.Helper()
	seed := rand.Uint64()
	m.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for number, c := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(number)))
		wg.Go(func() {
			var all []string
			for i := range names {
				all = append(all, fmt.Sprint("site/", i))
			}
			rng.Shuffle(names, func(i, k int) { all[i], all[k] = all[k], all[i] })
			for some := range slices.Chunk(all, 1+names*2/3) {
				ids, created, err := c.NameDevices(m.Context(), 1, some)
				if err != nil {
					m.Error(err)
					return
				}
				m.told(some, ids, created)
			}
		})
	}
	wg.Wait()
}

func (m *manyNames) told(names []string, ids []int64, created int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created += created
	for i, name := range names {
		if was, ok := m.ids[name]; ok && was != ids[i] {
			m.Errorf("%s has id %d, and another client got %d", name, ids[i], was)
		}
		m.ids[name] = ids[i]
	}
}

// check finds all names with the ids that clients were told, and no id twice.
func (m *manyNames) check(c *client.Client) {
	m.Helper()
	devices, err := c.Devices(m.Context(), 1)
	if err != nil || len(devices) != len(m.ids) || m.created != len(m.ids) {
		m.Fatalf("%d names, %d created, want %d; %v", len(devices), m.created, len(m.ids), err)
	}
	of := map[int64]string{}
	for _, d := range devices {
		if m.ids[d.Name] != d.MID || of[d.MID] != "" {
			m.Errorf("%s has id %d, want %d; it is also that of %q", d.Name, d.MID, m.ids[d.Name],
				of[d.MID])
		}
		of[d.MID] = d.Name
	}
}
