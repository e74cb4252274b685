package rowjson

import (
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Group returns a group, with its result as doc, the document of its plugin, describes it.
func Group(
	doc *plugin.Doc, g *wire.Group, by record.GroupBy,
) (map[string]any, error) {
	row := map[string]any{"records": g.Records}
	if by.CID {
		row["cid"] = g.CID
	}
	if by.MID {
		row["mid"] = g.MID
	}
	if by.MOID {
		row["moid"] = g.MOID
	}
	for i, key := range registry.KeyNames(by.Key) {
		row[key] = forValue(g.Values[i])
	}
	if by.ByCap() {
		row["cap"], row["cap_ns"] = record.FormatNs(g.CapNs), g.CapNs
	}
	values, err := doc.Render(g.Result)
	if err != nil {
		return nil, err
	}
	result := map[string]any{}
	for _, v := range values {
		result[v.Name] = forJSON(v.Value)
	}
	row["result"] = result
	return row, nil
}

// forValue returns a value of descriptions for JSON; none is null.
func forValue(v registry.Value) any {
	switch v.Kind() {
	case registry.KindText:
		return v.Text()
	case registry.KindNumber:
		return v.Number()
	case registry.KindBool:
		return v.Number() == 1
	}
	return nil
}

// Difference is a difference in JSON: the reading as it is now, and as it was.
type Difference struct {
	Change string `json:"change"`
	Row
	OldAcq     string  `json:"old_acq,omitempty"`
	OldAcqNs   int64   `json:"old_acq_ns,omitempty"`
	OldValue   any     `json:"old_value,omitempty"`
	OldPayload *string `json:"old_payload,omitempty"`
}

// DifferenceOf returns a difference.
func DifferenceOf(d *record.Differences, i int, payloads quantity.Types) Difference {
	out := Difference{Change: d.Kind.String(), Row: RowOf(&d.New, i, payloads, false)}
	if d.Kind != record.DiffAdded {
		old := RowOf(&d.Old, i, payloads, false)
		out.OldAcq, out.OldAcqNs = old.Acq, old.AcqNs
		out.OldValue, out.OldPayload = old.Value, old.Payload
	}
	return out
}

// Version is a version as people read it.
type Version struct {
	Row
	Latest   bool   `json:"latest"`
	Erased   string `json:"erased,omitempty"` // acq of the erase that hides it
	ErasedNs int64  `json:"erased_ns,omitempty"`
}

// VersionOf returns a version.
func VersionOf(v *record.Version, payloads quantity.Types) Version {
	row := Version{Row: RowOfRecord(&v.Record, payloads, false), Latest: v.Latest,
		ErasedNs: v.HiddenAcqNs}
	if v.HiddenAcqNs != 0 {
		row.Erased = record.FormatNs(v.HiddenAcqNs)
	}
	return row
}
