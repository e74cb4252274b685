package client

import (
	"math"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Feature returns the device in GeoJSON.
func (d *DescribedDevice) Feature() api.Feature {
	f := api.Feature{Type: "Feature", ID: d.MID, Properties: map[string]any{"name": d.Name}}
	if p := d.Place; p != nil {
		f.Geometry = &api.Point{Type: "Point", Coordinates: []float64{p.Lon, p.Lat}}
		if p.HasAlt {
			f.Geometry.Coordinates = append(f.Geometry.Coordinates, p.Alt)
		}
	}
	for key, text := range map[string]string{"type": d.Type, "group": d.Group,
		"metadata": d.Metadata} {
		if text != "" {
			f.Properties[key] = text
		}
	}
	if d.FromNs != math.MinInt64 {
		f.Properties["from"] = formatNs(d.FromNs)
	}
	if d.Retired {
		f.Properties["retired"] = true
	}
	for key, v := range d.Attributes {
		f.Properties[registry.ColumnOf(key)] = v.Plain()
	}
	return f
}
