package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Tenant is a tenant that has a name.
type Tenant struct {
	CID  int32
	Name string
}

// Tenants returns the tenants that have names, by number.
func (c *Client) Tenants(ctx context.Context) ([]Tenant, error) {
	claims, err := c.Devices(ctx, record.TenantsCID)
	var all []Tenant
	for _, d := range claims {
		if n := d.MID - record.FirstGivenID; n >= 0 && n <= math.MaxInt32 {
			all = append(all, Tenant{int32(n), d.Name})
		}
	}
	slices.SortFunc(all, func(a, b Tenant) int {
		return cmp.Or(cmp.Compare(a.CID, b.CID), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// NameTenant gives a tenant a name, in place of the one that it has. A name is that of one tenant.
// After an error the same call goes on.
//
// Errors: those of registry.CheckTenantName; *[DeviceError] if another tenant has the name.
func (c *Client) NameTenant(ctx context.Context, cid int32, name string) error {
	if err := registry.CheckTenantName(name); err != nil {
		return err
	}
	if cid < 0 || cid == record.TenantsCID {
		return fmt.Errorf("the tenant %d cannot have a name; tenants with names are 0 to %d", cid,
			record.TenantsCID-1)
	}
	return untilNamed(func() error { return c.tryNameTenant(ctx, cid, name) })
}

// tryNameTenant is NameTenant unless others name a tenant at the same time. It goes as names of
// devices do (devicenames.go), without descriptions.
func (c *Client) tryNameTenant(ctx context.Context, cid int32, name string) error {
	mid := record.FirstGivenID + int64(cid)
	held, err := c.heldNames(ctx, record.TenantsCID, []string{name}, 0)
	if err != nil {
		return err
	}
	if err := c.takeBack(ctx, record.TenantsCID, held.former); err != nil {
		return err
	}
	if has := held.ids[name]; has != 0 && has != mid {
		return inTheWay(record.TenantsCID, name,
			fmt.Sprintf("tenant %d has the name", has-record.FirstGivenID))
	}
	all, err := c.Tenants(ctx)
	if err != nil {
		return err
	}
	newestNs, err := c.tenantSaid(ctx, mid)
	if err != nil {
		return err
	}
	claimed := map[string]int64{name: mid}
	if err := c.claimNames(ctx, record.TenantsCID, []string{name}, claimed); err != nil {
		return fmt.Errorf("store the name of a tenant: %w", err)
	}
	if err := c.sayName(ctx, record.TenantsCID, mid, name, newestNs); err != nil {
		return err
	}
	var earlier []string
	for _, t := range all {
		if t.CID == cid && t.Name != name {
			earlier = append(earlier, t.Name)
		}
	}
	if held, err = c.heldNames(ctx, record.TenantsCID, earlier, 0); err != nil {
		return err
	}
	return c.takeBack(ctx, record.TenantsCID, held.former)
}

// tenantSaid returns an acq above which a tenant may say something else of its name.
func (c *Client) tenantSaid(ctx context.Context, mid int64) (newestNs int64, err error) {
	_, newestNs, err = c.descriptionsOf(ctx, record.TenantsCID,
		map[string]int64{strconv.FormatInt(mid, 10): mid})
	return newestNs, err
}

// ForgetTenant removes the name of a tenant. Its records stay.
//
// Errors: *[DeviceError] if no tenant has the name.
func (c *Client) ForgetTenant(ctx context.Context, name string) error {
	return untilNamed(func() error { return c.tryForgetTenant(ctx, name) })
}

// tryForgetTenant is ForgetTenant unless others name the tenant at the same time.
func (c *Client) tryForgetTenant(ctx context.Context, name string) error {
	held, err := c.heldNames(ctx, record.TenantsCID, []string{name}, 0)
	if err != nil {
		return err
	}
	mid := held.ids[name]
	if mid == 0 {
		if err := c.takeBack(ctx, record.TenantsCID, held.former); err != nil {
			return err
		}
		return notThere(record.TenantsCID, name, "no tenant has the name")
	}
	newestNs, err := c.tenantSaid(ctx, mid)
	if err != nil {
		return err
	}
	// What the tenant says now may be newer than the claim: it is looked at again.
	if held, err = c.heldNames(ctx, record.TenantsCID, []string{name}, 0); err != nil {
		return err
	}
	if held.ids[name] != mid {
		return notThere(record.TenantsCID, name, "no tenant has the name")
	}
	if err := c.sayName(ctx, record.TenantsCID, mid, "", newestNs); err != nil {
		return err
	}
	was := held.claims[name]
	return c.releaseClaim(ctx, record.TenantsCID, &was)
}
