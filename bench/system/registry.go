package system

import (
	"context"

	"github.com/pentad-db/pentad/sdk/record"
)

// Device is a described device.
type Device struct {
	MID                 int64
	Name, Type, Project string
	Lat, Lon, Alt       float64 // degrees north and east, metres
}

// Where are readings of devices: those above a number, in a time frame, of the devices of a type in
// a rectangle, between two altitudes, of a project.
type Where struct {
	Type, Project            string
	South, West, North, East float64
	AltFrom, AltTo           float64 // at neither is a device
	Cap                      record.Range
	Above                    float64
}

// Holds reports whether a device is one of those.
func (w *Where) Holds(d *Device) bool {
	return d.Type == w.Type && d.Project == w.Project && d.Lat >= w.South && d.Lat <= w.North &&
		d.Lon >= w.West && d.Lon <= w.East && d.Alt >= w.AltFrom && d.Alt < w.AltTo
}

// Registry is a database of described devices and of their readings, which are of one quantity.
type Registry interface {
	Register(ctx context.Context, devices []Device) error
	Put(ctx context.Context, b *record.Batch) error
	Settle(ctx context.Context) error
	// Ask returns how many readings there are and their sum. All of them come to this process.
	Ask(ctx context.Context, w *Where) (rows int, sum float64, err error)
	Close() error
}

// RegistryKind is a registry that can be opened.
type RegistryKind struct {
	Name  string
	About string // schema and settings
	Open  func(ctx context.Context, dir string) (Registry, error)
}
