package queryflags

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Resolver finds the numbers of names that records are written under. It is not for many
// goroutines. An error that is not of a text is a csvimport.SendError.
type Resolver struct {
	DB     *client.Client
	Create bool   // devices that are not there
	Prefix string // of parts in errors: -- for flags
	Hint   string // ends the error of a device that is not there
	Steady bool   // a name that is not there does not come while records are read

	tenants, quantities map[string]int64 // nil: not asked for
	devices             map[int32]*tenantDevices
	known               int // names in devices
}

// tenantDevices are the devices of a tenant as far as they are known.
type tenantDevices struct {
	ids   map[string]int64 // 0: there is none
	asked int              // names one by one
	whole bool             // all were asked for
}

const (
	// maxKnownDevices bounds the names that a Resolver remembers, some 100 bytes each.
	maxKnownDevices = 1 << 20
	// askedOneByOne is after how many names of a tenant all of them are read: a scan of names is
	// worth hundreds of questions.
	askedOneByOne = 200
)

// Key returns the parts of a key of texts that are numbers or names.
func (r *Resolver) Key(ctx context.Context, cid, mid, moid string) (key record.Key, err error) {
	if key.CID, err = r.Part(ctx, record.CID, cid); err != nil {
		return key, err
	}
	if key.MOID, err = r.Part(ctx, record.MOID, moid); err != nil {
		return key, err
	}
	key.MID, err = r.device(ctx, key.CID, mid)
	return key, err
}

// Find returns the number of one part of a text that is a number or a name, given the tenant of a
// device.
func (r *Resolver) Find(
	ctx context.Context, d record.Dim, cid int32, text string,
) (int64, error) {
	if d == record.MID {
		return r.device(ctx, cid, text)
	}
	n, err := r.Part(ctx, d, text)
	return int64(n), err
}

// number reads a part that is a number, and reports whether it is one.
func (r *Resolver) number(d record.Dim, text string) (n int64, is bool, err error) {
	if text == "" {
		return 0, true, fmt.Errorf("%s%s: missing", r.Prefix, d)
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil && registry.ReadsAsIDs(text) {
		return 0, true, fmt.Errorf("%s%s: %q is not an integer from %d to %d", r.Prefix, d,
			excerpt.Of(text, 80), d.Min(), d.Max()-1)
	}
	if err != nil {
		return 0, false, nil
	}
	if n < d.Min() || n >= d.Max() {
		err = fmt.Errorf("%s%s: %d is outside %d to %d", r.Prefix, d, n, d.Min(), d.Max()-1)
	}
	return n, true, err
}

// Part returns the number of a tenant or a quantity of a text that is a number or a name.
func (r *Resolver) Part(ctx context.Context, d record.Dim, text string) (int32, error) {
	n, is, err := r.number(d, text)
	if is {
		return int32(n), err
	}
	known, table, what := &r.tenants, tenantIDs, "tenant"
	if d == record.MOID {
		known, table, what = &r.quantities, quantityIDs, "quantity"
	}
	if *known == nil {
		if *known, _, err = table(ctx, r.DB); err != nil {
			return 0, csvimport.Sending(err)
		}
	}
	n, ok := (*known)[text]
	if !ok {
		return 0, fmt.Errorf("%s%s %q is neither an integer nor the name of a %s; pentad "+
			"%s ls lists them", r.Prefix, d, excerpt.Of(text, 80), what, what)
	}
	return int32(n), nil
}

func (r *Resolver) device(ctx context.Context, cid int32, text string) (int64, error) {
	n, is, err := r.number(record.MID, text)
	if is {
		return n, err
	}
	if r.devices[cid] == nil {
		if r.devices == nil {
			r.devices = map[int32]*tenantDevices{}
		}
		r.devices[cid] = &tenantDevices{ids: map[string]int64{}}
	}
	t := r.devices[cid]
	mid, known := t.ids[text]
	if !known || mid == 0 && !r.Steady {
		if mid, err = r.ask(ctx, cid, t, text); err != nil {
			return 0, err
		}
	}
	if mid == 0 {
		return 0, fmt.Errorf("%smid: tenant %d has no device with the name %q; pentad device "+
			"ls --cid %d lists its names%s", r.Prefix, cid, excerpt.Of(text, 80), cid, r.Hint)
	}
	return mid, nil
}

// ask asks the node for a device, or for all of the tenant when many were asked for.
func (r *Resolver) ask(
	ctx context.Context, cid int32, t *tenantDevices, name string,
) (mid int64, err error) {
	if err := registry.CheckName(name); err != nil {
		return 0, fmt.Errorf("%smid: %w", r.Prefix, err)
	}
	if t.asked++; t.asked > askedOneByOne && !t.whole {
		t.whole = true
		all, err := r.DB.Devices(ctx, cid)
		if err != nil {
			return 0, csvimport.Sending(err)
		}
		for _, d := range all {
			r.note(t, d.Name, d.MID)
		}
		if mid := t.ids[name]; mid != 0 || r.Steady && !r.Create {
			r.note(t, name, mid)
			return mid, nil
		}
	}
	var ids []int64
	if r.Create {
		ids, _, err = r.DB.NameDevices(ctx, cid, []string{name})
	} else {
		ids, err = r.DB.FindDevices(ctx, cid, []string{name})
	}
	if err != nil {
		return 0, csvimport.Sending(err)
	}
	r.note(t, name, ids[0])
	return ids[0], nil
}

// note remembers a device while there is room.
func (r *Resolver) note(t *tenantDevices, name string, mid int64) {
	_, known := t.ids[name]
	if !known && r.known >= maxKnownDevices {
		return
	}
	if !known {
		r.known++
	}
	t.ids[name] = mid
}
