package record

// Limits that hold everywhere. A node may be configured tighter, never wider.
const (
	// MaxPayloadBytes is the largest payload: 32 MiB, the limit of the systems whose data
	// pentad must be able to take over.
	MaxPayloadBytes = 32 << 20
	// MaxBatchRecords bounds one put: 65,536 rows keep a batch under a millisecond of work.
	MaxBatchRecords = 1 << 16
	// MaxBatchBytes bounds the payload bytes of one put: two of the largest payloads.
	MaxBatchBytes = 64 << 20
	// MaxRangesPerDim bounds the set of ranges of one dimension in a query.
	MaxRangesPerDim = 1024
	// MaxLast bounds the newest readings of each series that a query asks for: a node holds those
	// of at least one series in memory.
	MaxLast = 1 << 20
	// MaxPluginNameBytes bounds the name of a plugin.
	MaxPluginNameBytes = 64
	// MaxParamsBytes bounds the parameters of one plugin call.
	MaxParamsBytes = 64 << 10
	// MaxFilters bounds the filters of one query: each worker has an instance of every one.
	MaxFilters = 8
)
