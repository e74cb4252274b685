package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Delete stores a tombstone for each key: the readings are there no more, until records of them are
// put later. It is sent as Put sends a batch with the zero writer.
func (c *Client) Delete(ctx context.Context, keys ...record.Key) (wire.PutReply, error) {
	var b record.Batch
	for _, k := range keys {
		b.AppendTomb(k)
	}
	return c.Put(ctx, &b, [16]byte{}, 0)
}

// Erase hides the records of a box that are there now from the latest view, and from views of
// acqs after it: as if they had never been put. The view of all versions shows them.
//
// Returns: the acq of the event. What is put later, with a greater acq, is visible.
func (c *Client) Erase(ctx context.Context, box *wire.Box) (acqNs int64, err error) {
	return c.hide(ctx, "/v1/erase", box)
}

// Purge hides the records of a box that are there now from every view, for ever, and makes the
// node remove their bytes; [Client.Events] says when that is done.
//
// Returns: the acq of the event. What is put later, with a greater acq, is visible.
func (c *Client) Purge(ctx context.Context, box *wire.Box) (acqNs int64, err error) {
	return c.hide(ctx, "/v1/purge", box)
}

func (c *Client) hide(ctx context.Context, path string, box *wire.Box) (int64, error) {
	checked := *box
	if err := checked.Check(); err != nil {
		return 0, err
	}
	base, _, _ := c.nodes.now()
	answer, err := c.do(ctx, http.MethodPost, path, wire.ContentType,
		wire.AppendBox(nil, &checked))
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Close() }()
	var event wire.Event
	t, payload, err := wire.NewReader(answer, maxErrorBytes).Next()
	if err == nil && t != wire.FrameEvent {
		err = fmt.Errorf("unexpected frame of type %d", t)
	}
	if err == nil {
		err = wire.ParseEvent(payload, &event)
	}
	if err != nil {
		return 0, fmt.Errorf("read answer of %s: %v; it may have taken effect", path, err)
	}
	c.nodes.note(base, event.AcqNs)
	return event.AcqNs, nil
}

// Events lists erases, purges and the present steps of retentions, oldest first.
func (c *Client) Events(ctx context.Context) ([]Event, error) {
	var out api.Events
	err := c.getJSON(ctx, "/v1/events", &out)
	return out.Events, err
}

// Retention lists the policies by tenant and quantity.
func (c *Client) Retention(ctx context.Context) ([]Retention, error) {
	var out api.Policies
	err := c.getJSON(ctx, "/v1/retention", &out)
	return out.Policies, err
}

// SetRetention sets the policy of a tenant and quantity, in place of the one that there was, or
// removes it when no age is given.
func (c *Client) SetRetention(ctx context.Context, r Retention) error {
	var out struct{}
	if r.MaxCapAgeNs == 0 && r.MaxAcqAgeNs == 0 {
		return c.doJSON(ctx, http.MethodDelete, "/v1/retention?"+policyValues(&r).Encode(), "",
			nil, &out)
	}
	return c.doJSON(ctx, http.MethodPut, "/v1/retention?"+policyValues(&r).Encode(), "", nil, &out)
}

// Hold stops retentions, lets them go on, or undoes their last steps.
type Hold struct {
	Action     string // "hold", "resume", or "undo", which also holds
	CID, MOID  *int32 // of the policy; nil: the one of all tenants, of all quantities
	Everything bool   // every policy, also those that are set later
	TrustClock bool   // of a resume: the clock of the node is right, and steps go on from there
}

// HoldRetention stops retentions and removals, lets them go on, or shows
// again what they have hidden and is not removable.
func (c *Client) HoldRetention(ctx context.Context, h Hold) error {
	r := Retention{CID: h.CID, MOID: h.MOID}
	v := policyValues(&r)
	v.Set("action", h.Action)
	if h.Everything {
		v.Set("everything", "1")
	}
	if h.TrustClock {
		v.Set("trust_clock", "1")
	}
	var out struct{}
	return c.doJSON(ctx, http.MethodPost, "/v1/retention?"+v.Encode(), "", nil, &out)
}

// CountExpired returns how many records a policy would hide if it were set now, and sets nothing.
func (c *Client) CountExpired(ctx context.Context, r Retention) (records uint64, err error) {
	v := policyValues(&r)
	v.Set("dry_run", "1")
	var out api.DryRun
	err = c.doJSON(ctx, http.MethodPut, "/v1/retention?"+v.Encode(), "", nil, &out)
	return out.Records, err
}

// values are the parameters that say the policy.
func policyValues(r *Retention) url.Values {
	v := url.Values{}
	for name, id := range map[string]*int32{"cid": r.CID, "moid": r.MOID} {
		if id != nil {
			v.Set(name, strconv.Itoa(int(*id)))
		}
	}
	for name, ns := range map[string]int64{"cap_age": r.MaxCapAgeNs, "acq_age": r.MaxAcqAgeNs} {
		if ns != 0 {
			v.Set(name, strconv.FormatInt(ns, 10)+"ns")
			if r.CID == nil && r.MOID == nil {
				v.Set("everything", "1")
			}
		}
	}
	if r.DelayNs != 0 {
		v.Set("delay", strconv.FormatInt(r.DelayNs, 10)+"ns")
	}
	return v
}
