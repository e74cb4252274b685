package wasmhost

import "sync/atomic"

// Stats counts what a host has done since it was made. Of an instance that is alive it may not know
// the last 64 calls yet, nor what these did.
type Stats struct {
	Modules        int       // modules loaded now
	Instances      int64     // instances alive now
	InstancesTotal uint64    // instances made
	InstancesReset uint64    // pooled instances that a query got in place of a new one
	Refused        uint64    // modules refused
	Compiles       uint64    // modules compiled or taken from the cache directory
	CacheHits      uint64    // of Compiles, those taken from the cache directory
	CompileNs      uint64    // time spent checking, rewriting and compiling
	Calls          uint64    // guest calls
	CallNs         uint64    // time that guests held permits, with the host's part
	Records        uint64    // records passed to filters and aggregates
	FuelUsed       uint64    // fuel used by all calls
	Failures       [9]uint64 // failures of instances by ErrorKind
	MemoryBytes    int64     // address space of guest memories, pooled ones included
}

type counters struct {
	instances, instancesTotal        atomic.Int64
	instancesReset, refused          atomic.Int64
	compiles, cacheHits, compileNs   atomic.Int64
	calls, callNs, records, fuelUsed atomic.Int64
	failures                         [9]atomic.Int64
}

// Stats returns the counters.
func (h *Host) Stats() Stats {
	c := &h.counter
	s := Stats{
		Instances:      c.instances.Load(),
		InstancesTotal: uint64(c.instancesTotal.Load()),
		InstancesReset: uint64(c.instancesReset.Load()),
		Refused:        uint64(c.refused.Load()),
		Compiles:       uint64(c.compiles.Load()),
		CacheHits:      uint64(c.cacheHits.Load()),
		CompileNs:      uint64(c.compileNs.Load()),
		Calls:          uint64(c.calls.Load()),
		CallNs:         uint64(c.callNs.Load()),
		Records:        uint64(c.records.Load()),
		FuelUsed:       uint64(c.fuelUsed.Load()),
		MemoryBytes:    h.pool.mappedBytes() + h.hugePool.mappedBytes(),
	}
	for i := range s.Failures {
		s.Failures[i] = uint64(c.failures[i].Load())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Modules = len(h.entries)
	return s
}
