package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/devicefile"
)

func (a *app) deviceExportCommand() *cobra.Command {
	var l deviceList
	var format string
	c := &cobra.Command{
		Use:   "export",
		Short: "Export devices as CSV or GeoJSON",
		Long: `Export the devices of a tenant to stdout, by name, in a form that device import reads without a
mapping: CSV with a column for each key of an attribute, or a GeoJSON FeatureCollection of points. A
device without a place is a feature without a geometry.`,
		Args: cli.NoCommand,
		Example: `  pentad device export --cid 1 > registry.csv
  pentad device export --cid 1 --format geojson --select 'type=thermometer'
  pentad device export --cid 1 --format geojson --at 2024-05-01`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.deviceExport(c.Context(), &l, format)
		},
	}
	l.add(c)
	c.Flags().StringVar(&format, "format", "csv", "format: csv or geojson")
	cli.Complete(c, "format", "csv", "geojson")
	return c
}

func (a *app) deviceExport(ctx context.Context, l *deviceList, format string) error {
	if format != "csv" && format != "geojson" {
		return cli.Usagef("--format %q is unknown; use csv or geojson", format)
	}
	devices, err := l.ask(ctx, a)
	if err != nil {
		return err
	}
	if format == "csv" {
		return devicefile.WriteCSV(a.Stdout, devices)
	}
	return devicefile.WriteGeoJSON(a.Stdout, devices)
}
