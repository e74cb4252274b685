package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// bindMoving returns a query of devices that move with where their locations are in payloads, as
// their quantity is declared, so that all sources read them alike. One that another node or the
// client has bound stays as it is.
//
// Errors: *record.InvalidError for a quantity that is not declared, or has no place.
func (e *Engine) bindMoving(q *record.Query) (*record.Query, error) {
	if q.Moving == "" {
		return q, nil
	}
	m, err := registry.ParseMoving(q.Moving)
	if err == nil && m.Layout != nil {
		return q, nil
	}
	if err == nil {
		err = layOut(&m, e.plugins.Quantities())
	}
	if err != nil {
		return nil, &record.InvalidError{Part: "moving", Reason: record.Inconsistent, Row: -1,
			Detail: err.Error()}
	}
	bound := *q
	bound.Moving = m.String()
	return &bound, nil
}

// layOut finds the fields lat, lon and alt of the quantity of locations.
func layOut(m *registry.Moving, declared []plugin.Quantity) error {
	at := slices.IndexFunc(declared, func(q plugin.Quantity) bool { return q.Name == m.Quantity })
	if n, err := strconv.ParseInt(m.Quantity, 10, 32); at < 0 && err == nil {
		at = slices.IndexFunc(declared, func(q plugin.Quantity) bool { return q.MOID == int32(n) })
	}
	if at < 0 {
		return fmt.Errorf("there is no quantity %q of locations; declare one, e.g. pentad "+
			"quantity set 9 --name %[1]s --fields lat:f64:0,lon:f64:8,alt:f64:16", m.Quantity)
	}
	q := &declared[at]
	l := &registry.LocationLayout{MOID: q.MOID, MaxAgeNs: m.MaxAgeNs}
	for _, f := range q.Fields {
		field := registry.LocationField{Offset: f.Offset, Type: f.Type}
		switch f.Name {
		case "lat":
			l.Lat = field
		case "lon":
			l.Lon = field
		case "alt":
			l.Alt = &field
		}
	}
	if l.Lat.Type == "" || l.Lon.Type == "" {
		return fmt.Errorf("quantity %d (%s) has no fields lat and lon, which are degrees; alt, in "+
			"metres, may be left out", q.MOID, q.Name)
	}
	m.Layout = l
	return nil
}
