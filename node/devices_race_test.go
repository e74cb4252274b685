package node

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

// TestRemovedWhileDescribed has clients describe devices that others remove at the same time: each
// description that is left is that of the device which has its name.
func TestRemovedWhileDescribed(t *testing.T) {
	n := openTest(t, Options{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i := range uint64(8) {
		wg.Go(func() {
			c, rng := dial(t, n), rand.New(rand.NewPCG(seed, i))
			for step := range 40 {
				name := fmt.Sprint("d", rng.IntN(2))
				var err error
				if rng.IntN(3) == 0 {
					_, _, err = c.RemoveDevice(t.Context(), 1, name)
				} else {
					kind := fmt.Sprint("t", i, ".", step)
					_, err = c.ChangeDevices(t.Context(), 1, []client.DeviceChange{{Name: name,
						FromNs: rng.Int64N(5), Change: registry.Change{Type: &kind}}})
				}
				_ = err // many are refused: what counts is what is left
			}
		})
	}
	wg.Wait()
	c := dial(t, n)
	names, err := c.Devices(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	has := map[int64]string{}
	for _, d := range names {
		has[d.MID] = d.Name
	}
	left, err := c.SelectDevices(t.Context(), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range left {
		if has[d.MID] != d.Name {
			t.Errorf("%d has the name %q, and is described as %q", d.MID, has[d.MID], d.Name)
		}
	}
}
