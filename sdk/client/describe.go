package client

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// DescribedDevice is a device with one of its descriptions.
type DescribedDevice struct {
	MID    int64
	FromNs int64 // from when it holds, until that of the next description
	registry.Description
}

const (
	// describeSurely devices are put in one batch, which is less than a frame whatever descriptions
	// they have; up to describeAtOnce if they have no more than describeBytes.
	describeSurely = 1000
	describeAtOnce = 2500
	describeBytes  = 4 << 20
)

// DescribeDevices stores descriptions of devices of a tenant. A device may have many, each from
// another time on; one from the same time replaces what was known of it. Queries select devices by
// the description that is from the latest time.
//
// Errors: those of [registry.Append] and of puts. Other devices may have been described.
//
// Cost: a put for 2,500 devices, for 1,000 if their descriptions are long; four at the same time,
// unless devices have several descriptions.
func (c *Client) DescribeDevices(ctx context.Context, cid int32, devices []DescribedDevice) error {
	return c.describe(ctx, unconditional, cid, devices)
}

// DescribeUnlessNewer is DescribeDevices of devices whose descriptions were read before: if one of
// them was described with an acq above newestNs since, nothing of its batch is stored, in a cluster
// nothing that its group has of the batch. A reader has seen all up to the horizon of its answer,
// without it, or of one device to the greatest acq of its descriptions; 0 if there were none.
//
// Errors: as DescribeDevices; a *wire.Error of kind conflict.
func (c *Client) DescribeUnlessNewer(
	ctx context.Context, cid int32, devices []DescribedDevice, newestNs int64,
) error {
	if newestNs < 0 {
		return fmt.Errorf("describe devices unless newer ones came: %d is not an acq", newestNs)
	}
	return c.describe(ctx, newestNs, cid, devices)
}

// unconditional is the condition of a put that has none.
const unconditional = -1

// putPath is the path of puts under a condition.
func putPath(unlessNewerNs int64) string {
	if unlessNewerNs < 0 {
		return "/v1/put"
	}
	return "/v1/put?" + wire.ParamUnlessNewer + "=" + strconv.FormatInt(unlessNewerNs, 10)
}

func (c *Client) describe(
	ctx context.Context, unlessNewerNs int64, cid int32, devices []DescribedDevice,
) error {
	chunks := slices.Collect(slices.Chunk(devices, describeAtOnce))
	return eachOfMany(chunks, distinctDevices(devices), func(some []DescribedDevice) error {
		return c.describeSome(ctx, unlessNewerNs, cid, some)
	})
}

// distinctDevices reports whether no device is there twice: its descriptions may be of one time, of
// which the last one holds.
func distinctDevices(devices []DescribedDevice) bool {
	seen := make(map[int64]bool, len(devices))
	for i := range devices {
		if seen[devices[i].MID] {
			return false
		}
		seen[devices[i].MID] = true
	}
	return true
}

// describeSome is describe for devices that follow each other.
func (c *Client) describeSome(
	ctx context.Context, unlessNewerNs int64, cid int32, devices []DescribedDevice,
) error {
	var b record.Batch
	var payload []byte
	for i := range devices {
		d := &devices[i]
		var err error
		if payload, err = registry.Append(payload[:0], &d.Description); err != nil {
			return fmt.Errorf("device %d: %w", d.MID, err)
		}
		b.Append(descriptionKey(cid, d), payload)
		n := b.Len()
		if i+1 < len(devices) && n < describeAtOnce &&
			(n < describeSurely || len(b.Data) <= describeBytes) {
			continue
		}
		if err := c.putDevices(ctx, &b, unlessNewerNs); err != nil {
			return fmt.Errorf("store descriptions of devices: %w", err)
		}
		b.Reset()
	}
	return nil
}

// SelectDevices returns the devices of a tenant that a selector chooses, in the language of
// [registry.ParseSelector], by mid; without a selector all that have a description. Records of
// descriptions that are not in a form that is known here are left out.
func (c *Client) SelectDevices(
	ctx context.Context, cid int32, selector string,
) ([]DescribedDevice, error) {
	return c.descriptions(ctx, &record.Query{Select: selector, Last: 1, Box: record.Box{
		record.CID: {record.At(int64(cid))}, record.MOID: {record.At(record.DescriptionMOID)}}})
}

// DeviceDescriptions returns all descriptions of a device, by the time from which they hold.
func (c *Client) DeviceDescriptions(
	ctx context.Context, cid int32, mid int64,
) ([]DescribedDevice, error) {
	return c.descriptions(ctx, &record.Query{Box: seriesBox(record.Key{CID: cid, MID: mid,
		MOID: record.DescriptionMOID})})
}

func (c *Client) descriptions(
	ctx context.Context, q *record.Query,
) ([]DescribedDevice, error) {
	all, _, err := c.descriptionsUntil(ctx, q)
	return all, err
}

// descriptionsUntil is descriptions with the horizon of the answer.
func (c *Client) descriptionsUntil(
	ctx context.Context, q *record.Query,
) (all []DescribedDevice, horizonNs int64, err error) {
	q.View, q.Order = record.ViewLatest, record.OrderKey
	if q.AsOfAcqNs != 0 {
		q.View = record.ViewAsOf
	}
	end, err := c.readDevices(ctx, q, func(r record.Record) {
		if d, err := registry.Parse(r.Payload); err == nil && !r.Tomb {
			all = append(all, DescribedDevice{r.MID, r.CapNs, *d})
		}
	})
	return all, end.HorizonNs, err
}
