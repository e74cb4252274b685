package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/bench/peers/badger"
	"github.com/pentad-db/pentad/bench/peers/bbolt"
	"github.com/pentad-db/pentad/bench/peers/clickhouse"
	"github.com/pentad-db/pentad/bench/peers/influxdb"
	"github.com/pentad-db/pentad/bench/peers/pebble"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/peers/postgres"
	"github.com/pentad-db/pentad/bench/peers/prometheus"
	"github.com/pentad-db/pentad/bench/peers/redis"
	"github.com/pentad-db/pentad/bench/peers/victoriametrics"
	"github.com/pentad-db/pentad/bench/system"
)

// allKinds returns every system that this build can measure, pentad first.
func allKinds() []system.Kind {
	return slices.Concat(pentad.Kinds(), pebble.Kinds(), badger.Kinds(), bbolt.Kinds(),
		cgoKinds(), clickhouse.Kinds(), postgres.Kinds(), influxdb.Kinds(), redis.Kinds(),
		prometheus.Kinds(), victoriametrics.Kinds())
}

// chooseKinds returns the systems of a list of names, in its order.
func chooseKinds(names string) ([]system.Kind, error) {
	all := allKinds()
	var out []system.Kind
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(k system.Kind) bool { return k.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no system %q; there are %s", name,
				strings.Join(kindNames(all), ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// defaultKinds are the systems of a run that names none. Badger is there on request only: a second
// LSM tree of ordered keys beside Pebble, which was slower in all that was tried.
func defaultKinds() string {
	var names []string
	for _, k := range allKinds() {
		if k.Name != "badger" {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, ",")
}

func kindNames(kinds []system.Kind) []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}
