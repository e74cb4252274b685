//go:build cgo

package main

import (
	"slices"

	"github.com/pentad-db/pentad/bench/peers/duckdb"
	"github.com/pentad-db/pentad/bench/peers/sqlite"
	"github.com/pentad-db/pentad/bench/system"
)

// cgoKinds are the peers that are written in C.
func cgoKinds() []system.Kind {
	return slices.Concat(duckdb.Kinds(), sqlite.Kinds())
}

// cgoRegistries are the same with described devices.
func cgoRegistries() []system.RegistryKind { return duckdb.Registries() }

const cgoMissing = ""
