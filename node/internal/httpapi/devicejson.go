package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// localDevices is this node as clients of its registry of devices ask it.
type localDevices struct {
	s       *Server
	options request.Options // of the request
}

// Scan implements client.Local.
func (l *localDevices) Scan(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	options := l.options
	options.Linearizable = true
	a, err := l.s.Engine.Prepare(ctx, options, q)
	if err != nil {
		return wire.End{}, nodeerror.ToWire(err)
	}
	defer a.Done()
	end, err := a.Rows(ctx, emit)
	if err != nil {
		return end, nodeerror.ToWire(err)
	}
	return end, nil
}

// Put implements client.Local.
func (l *localDevices) Put(
	ctx context.Context, b *record.Batch, unlessNewerNs int64,
) (wire.PutReply, error) {
	w := l.s.Writes.Writers.Take()
	put := func() error {
		if unlessNewerNs < 0 {
			_, err := l.s.Writes.Put(ctx, b, w)
			return err
		}
		_, err := l.s.Writes.PutUnlessNewer(ctx, b, w, unlessNewerNs)
		return err
	}
	if err := put(); err != nil { // the writer is kept back, as its outcome may be unknown
		return wire.PutReply{}, nodeerror.ToWire(err)
	}
	l.s.Writes.Writers.Give(w)
	return wire.PutReply{Records: uint32(b.Len())}, nil
}

// Purge implements client.Local.
func (l *localDevices) Purge(ctx context.Context, box *wire.Box) error {
	if l.s.closing() {
		return nodeerror.ToWire(nodeerror.ErrClosing)
	}
	if _, err := l.s.Writes.DeleteRange(ctx, l.options, box, true); err != nil {
		return nodeerror.ToWire(err)
	}
	return nil
}

// newDevice returns a device as JSON has it.
func newDevice(cid int32, d *client.DescribedDevice) api.Device {
	out := api.Device{CID: cid, MID: d.MID, Name: d.Name, Type: d.Type, Group: d.Group,
		Metadata: d.Metadata, Retired: d.Retired, Replaces: d.Replaces, ReplacedBy: d.ReplacedBy}
	if p := d.Place; p != nil {
		out.Place = &api.Place{Lat: p.Lat, Lon: p.Lon}
		if p.HasAlt {
			out.Place.Alt = &p.Alt
		}
	}
	if d.FromNs != math.MinInt64 {
		out.From, out.FromNs = record.FormatNs(d.FromNs), &d.FromNs
	}
	if len(d.Attributes) > 0 {
		out.Attributes = make(map[string]any, len(d.Attributes))
	}
	for key, v := range d.Attributes {
		out.Attributes[key] = v.Plain()
	}
	return out
}

// parseDeviceChange reads a change, and the name in it, which is empty if there is none.
func (s *Server) parseDeviceChange(src []byte) (c client.DeviceChange, name string, err error) {
	var p api.DeviceChange
	if string(bytes.TrimSpace(src)) == "null" {
		return c, "", &strictjson.TypeError{Value: "null", Type: "object"}
	}
	if err := strictjson.Unmarshal(src, &p); err != nil {
		return c, "", err
	}
	now := s.Clock.Now()
	c.FromNs, c.Last = now.UnixNano(), p.From == ""
	if p.From != "" {
		span, err := timeparse.ParseDated(p.From, now)
		if err != nil {
			return c, "", fmt.Errorf("from: %w", err)
		}
		if c.FromNs = span.FromNs; c.FromNs > now.UnixNano() {
			return c, "", fmt.Errorf("from: %s is in the future, and a description holds at once",
				excerpt.Of(p.From, 60))
		}
	}
	for _, t := range []struct {
		name string
		text json.RawMessage
		to   **string
	}{{"type", p.Type, &c.Type}, {"group", p.Group, &c.Group},
		{"metadata", p.Metadata, &c.Metadata}} {
		if *t.to, err = optional[string](t.name, t.text); err != nil {
			return c, "", err
		}
	}
	if c.Retired, err = optional[bool]("retired", p.Retired); err != nil {
		return c, "", err
	}
	if len(p.Place) > 0 {
		if c.Place, err = parsePlace(p.Place); err != nil {
			return c, "", err
		}
		c.NoPlace = c.Place == nil
	}
	if len(p.Attributes) > 0 {
		c.Attributes = make(map[string]registry.Value, len(p.Attributes))
	}
	for key, text := range p.Attributes {
		if c.Attributes[key], err = parseAttribute(key, text); err != nil {
			return c, "", err
		}
	}
	return c, p.Name, nil
}

// optional reads a member: nil if it is not there, and the zero value for null.
func optional[T any](name string, text json.RawMessage) (*T, error) {
	if len(text) == 0 {
		return nil, nil
	}
	out := new(T)
	err := strictjson.Unmarshal(text, out)
	if wrong := (*strictjson.TypeError)(nil); errors.As(err, &wrong) && wrong.Member == "" {
		return nil, strictjson.WrongType(name, text, wrong.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func parsePlace(text json.RawMessage) (*registry.Place, error) {
	if string(text) == "null" {
		return nil, nil
	}
	var p struct{ Lat, Lon, Alt *float64 }
	if err := strictjson.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("place: %w", err)
	}
	if p.Lat == nil || p.Lon == nil {
		return nil, errors.New("place: give lat and lon in degrees, and perhaps alt in metres")
	}
	out := &registry.Place{Lat: *p.Lat, Lon: *p.Lon}
	if p.Alt != nil {
		out.Alt, out.HasAlt = *p.Alt, true
	}
	return out, nil
}

// parseAttribute reads a text, a number or a boolean; null is none.
func parseAttribute(key string, text json.RawMessage) (registry.Value, error) {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return registry.Value{}, fmt.Errorf("the attribute %s: %w", excerpt.Of(key, 60), err)
	}
	switch v := v.(type) {
	case nil:
		return registry.Value{}, nil
	case string:
		return registry.Text(v), nil
	case json.Number:
		return registry.ParseNumber(key, v.String())
	case bool:
		return registry.Bool(v), nil
	}
	return registry.Value{}, fmt.Errorf("the attribute %s is a list or an object, not a text, a "+
		"number or a boolean", excerpt.Of(key, 60))
}

// checkChange says what is wrong with a change by itself.
func checkChange(c *client.DeviceChange) error {
	if err := registry.CheckName(c.Name); err != nil {
		return err
	}
	return c.Check(c.Name)
}
