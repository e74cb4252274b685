package devicefile

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

// fixedColumns are those of each file of devices, before those of attributes.
var fixedColumns = []string{"name", "type", "group", "lat", "lon", "alt", "retired", "metadata",
	"from"}

// WriteCSV writes devices in the form that [Importer.CSV] reads without a mapping: a column for
// each key that a device has. Texts that would be read as numbers or booleans are in double quotes.
func WriteCSV(w io.Writer, devices []client.DescribedDevice) error {
	found := map[string]bool{}
	for i := range devices {
		for key := range devices[i].Attributes {
			found[key] = true
		}
	}
	keys := slices.Sorted(maps.Keys(found))
	out := csv.NewWriter(w)
	cells := slices.Clone(fixedColumns)
	for _, key := range keys {
		cells = append(cells, registry.ColumnOf(key))
	}
	if err := out.Write(cells); err != nil {
		return err
	}
	for i := range devices {
		d := &devices[i]
		lat, lon, alt := "", "", ""
		if p := d.Place; p != nil {
			lat, lon = number(p.Lat), number(p.Lon)
			if p.HasAlt {
				alt = number(p.Alt)
			}
		}
		cells = append(cells[:0], d.Name, d.Type, d.Group, lat, lon, alt,
			strconv.FormatBool(d.Retired), d.Metadata, fromText(d))
		for _, key := range keys {
			cells = append(cells, literal(d.Attributes[key]))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// fromText is the time from which a description holds, empty if there is none.
func fromText(d *client.DescribedDevice) string {
	if d.FromNs == math.MinInt64 {
		return ""
	}
	return timeparse.Format(d.FromNs)
}

// literal is a value as registry.ParseValue reads it, empty for none.
func literal(v registry.Value) string {
	text := v.String()
	if v.Kind() == registry.KindText && (text == "" || text != strings.TrimSpace(text) ||
		registry.ParseValue(text) != v) {
		return `"` + text + `"`
	}
	return text
}

// WriteGeoJSON writes devices as a FeatureCollection of points, which [Importer.JSON] reads. A
// device without a place has no geometry.
func WriteGeoJSON(w io.Writer, devices []client.DescribedDevice) error {
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(`{"type":"FeatureCollection","features":[`) // Flush has the error
	for i := range devices {
		text, err := json.Marshal(devices[i].Feature())
		if err != nil {
			return err
		}
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_ = out.WriteByte('\n')
		_, _ = out.Write(text)
	}
	_, _ = out.WriteString("\n]}\n")
	return out.Flush()
}
