package node

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
)

// TestTenantsNamedAtOnce has clients name tenants and forget names at the same time: in the end a
// tenant has one name at most, a name that was not given to two, and each may be named again.
func TestTenantsNamedAtOnce(t *testing.T) {
	t.Run("node", func(t *testing.T) {
		nameTenantsAtOnce(t, []*Node{openTest(t, Options{})}, 30)
	})
	t.Run("cluster", func(t *testing.T) {
		nameTenantsAtOnce(t, openTogether(t, 3, 4).nodes, 6)
	})
}

func nameTenantsAtOnce(t *testing.T, nodes []*Node, steps int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i := range uint64(6) {
		wg.Go(func() {
			c, rng := dial(t, nodes[i%uint64(len(nodes))]), rand.New(rand.NewPCG(seed, i))
			for range steps {
				name := fmt.Sprint("acme", rng.IntN(3))
				var err error
				if rng.IntN(4) == 0 {
					err = c.ForgetTenant(t.Context(), name)
				} else {
					err = c.NameTenant(t.Context(), rng.Int32N(2), name)
				}
				_ = err // many are refused: what counts is what is left
			}
		})
	}
	wg.Wait()
	c := dial(t, nodes[0])
	wantTenants(t, c, 2)
	for cid := range int32(2) {
		if err := c.NameTenant(t.Context(), cid, fmt.Sprint("other", cid)); err != nil {
			t.Error(err)
		}
	}
	for _, named := range wantTenants(t, c, 2) {
		if named.Name != fmt.Sprint("other", named.CID) {
			t.Errorf("tenant %d has the name %q", named.CID, named.Name)
		}
	}
	for i := range 3 { // all are free
		if err := c.NameTenant(t.Context(), int32(10+i), fmt.Sprint("acme", i)); err != nil {
			t.Error(err)
		}
	}
	wantTenants(t, c, 5)
}

// wantTenants returns the tenants with names, at most that many, each with one name of its own.
func wantTenants(t *testing.T, c *client.Client, most int) []client.Tenant {
	t.Helper()
	all, err := c.Tenants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tenants, names := map[int32]bool{}, map[string]bool{}
	for _, named := range all {
		if tenants[named.CID] || names[named.Name] {
			t.Errorf("a tenant has two names, or a name two tenants: %v", all)
		}
		tenants[named.CID], names[named.Name] = true, true
	}
	if len(all) > most {
		t.Errorf("%d tenants have names, want at most %d", len(all), most)
	}
	return all
}
