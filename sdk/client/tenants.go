package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

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
	all, err := c.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Name == name && t.CID != cid {
			return &DeviceError{CID: record.TenantsCID, Name: name,
				Reason: fmt.Sprintf("tenant %d has the name", t.CID)}
		}
	}
	err = c.claimName(ctx, record.TenantsCID, name, record.FirstGivenID+int64(cid))
	for _, t := range all {
		if err == nil && t.CID == cid && t.Name != name {
			err = c.releaseName(ctx, record.TenantsCID, t.Name)
		}
	}
	return err
}

// ForgetTenant removes the name of a tenant. Its records stay.
//
// Errors: *[DeviceError] if no tenant has the name.
func (c *Client) ForgetTenant(ctx context.Context, name string) error {
	found, err := c.FindDevices(ctx, record.TenantsCID, []string{name})
	if err != nil {
		return err
	}
	if found[0] == 0 {
		return notThere(record.TenantsCID, name, "no tenant has the name")
	}
	return c.releaseName(ctx, record.TenantsCID, name)
}

// claimName claims a name for an id.
func (c *Client) claimName(ctx context.Context, cid int32, name string, mid int64) error {
	err := c.claimNames(ctx, cid, []string{name}, map[string]int64{name: mid})
	if isConflict(err) {
		return inTheWay(cid, name, "another tenant got the name at the same time")
	}
	if err != nil {
		return fmt.Errorf("store the name of a tenant: %w", err)
	}
	return nil
}

// releaseName takes back the claims of a name.
func (c *Client) releaseName(ctx context.Context, cid int32, name string) error {
	var b record.Batch
	b.AppendTomb(record.NameClaimKey(cid, name))
	if err := c.putDevices(ctx, &b, unconditional); err != nil {
		return fmt.Errorf("remove the name of a tenant: %w", err)
	}
	return nil
}
