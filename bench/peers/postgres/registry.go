package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Registries returns PostgreSQL with PostGIS.
func Registries() []system.RegistryKind {
	return []system.RegistryKind{{Name: "postgis",
		About: "table of devices with gist indexes of (place) and (type, project, place), table " +
			"of readings with a covering btree (mid, cap, val), joined in one prepared " +
			"statement; settings as of postgres; VACUUM ANALYZE after the load; binary rows " +
			"over a socket",
		Open: openRegistry}}
}

// ST_Intersects and not the operator &&, whose boxes are of 32-bit numbers.
const (
	registrySchema = `
CREATE TABLE devices (mid bigint PRIMARY KEY, name text UNIQUE, type text, project text,
	alt float8, place geometry(Point, 4326));
CREATE TABLE r (mid bigint, cap bigint, val float8);`
	registryIndexes = `
CREATE INDEX ON devices USING gist (place);
CREATE INDEX ON devices USING gist (type, project, place);
CREATE INDEX ON r (mid, cap) INCLUDE (val);`
	registryQuestion = `
SELECT r.mid, r.cap, r.val FROM devices d JOIN r ON r.mid = d.mid
WHERE d.type = $1 AND d.project = $2
	AND ST_Intersects(d.place, ST_MakeEnvelope($3, $4, $5, $6, 4326))
	AND d.alt >= $7 AND d.alt < $8 AND r.cap >= $9 AND r.cap < $10 AND r.val > $11`
)

type registry struct {
	server *server.Process
	conn   *pgx.Conn
}

func openRegistry(ctx context.Context, dir string) (system.Registry, error) {
	process, config, err := start(ctx, dir)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, errors.Join(err, process.Close())
	}
	d := &registry{process, conn}
	for _, name := range []string{"postgis", "btree_gist"} {
		if _, err := conn.Exec(ctx, "CREATE EXTENSION "+name); err != nil {
			return nil, errors.Join(system.MissingError(fmt.Sprintf("%s cannot be loaded: make "+
				"bench-peers installs it: %v", name, err)), d.Close())
		}
	}
	if _, err := conn.Exec(ctx, registrySchema); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *registry) Register(ctx context.Context, devices []system.Device) error {
	_, err := d.conn.Exec(ctx, "CREATE TEMP TABLE IF NOT EXISTS t (mid bigint, name text, "+
		"type text, project text, alt float8, lat float8, lon float8)")
	if err != nil {
		return err
	}
	_, err = d.conn.CopyFrom(ctx, pgx.Identifier{"t"},
		[]string{"mid", "name", "type", "project", "alt", "lat", "lon"},
		pgx.CopyFromSlice(len(devices), func(i int) ([]any, error) {
			x := &devices[i]
			return []any{x.MID, x.Name, x.Type, x.Project, x.Alt, x.Lat, x.Lon}, nil
		}))
	if err != nil {
		return err
	}
	_, err = d.conn.Exec(ctx, "INSERT INTO devices SELECT mid, name, type, project, alt, "+
		"ST_SetSRID(ST_MakePoint(lon, lat), 4326) FROM t; TRUNCATE t")
	return err
}

func (d *registry) Put(ctx context.Context, b *record.Batch) error {
	_, err := d.conn.CopyFrom(ctx, pgx.Identifier{"r"}, []string{"mid", "cap", "val"},
		pgx.CopyFromSlice(b.Len(), func(i int) ([]any, error) {
			return []any{b.MID[i], b.CapNs[i], system.Number(b.Payload(i))}, nil
		}))
	return err
}

func (d *registry) Settle(ctx context.Context) error {
	for _, text := range []string{registryIndexes, "VACUUM ANALYZE devices", "VACUUM ANALYZE r",
		"CHECKPOINT"} {
		if _, err := d.conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (d *registry) Ask(
	ctx context.Context, w *system.Where,
) (count int, sum float64, err error) {
	rows, err := d.conn.Query(ctx, registryQuestion, w.Type, w.Project, w.West, w.South, w.East,
		w.North, w.AltFrom, w.AltTo, w.Cap.From, w.Cap.To, w.Above)
	if err != nil {
		return 0, 0, err
	}
	var mid, capNs int64
	var value float64
	_, err = pgx.ForEachRow(rows, []any{&mid, &capNs, &value}, func() error {
		count, sum = count+1, sum+value
		return nil
	})
	return count, sum, err
}

func (d *registry) Close() error {
	return errors.Join(d.conn.Close(context.Background()), d.server.Close())
}
