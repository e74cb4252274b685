//go:build !cgo

package main

import "github.com/pentad-db/pentad/bench/system"

// cgoKinds are the peers that are written in C.
func cgoKinds() []system.Kind { return nil }

// cgoRegistries are the same with described devices.
func cgoRegistries() []system.RegistryKind { return nil }

const cgoMissing = "duckdb, duckdb-sorted and sqlite: built without cgo; install Debian's gcc"
