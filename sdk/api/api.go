// Package api has the JSON documents of a node's HTTP interface, each of them once: the node
// writes these structs and the client reads them.
//
// Times end in Ns and are nanoseconds since the Unix epoch, UTC; a text beside one is the same time
// in RFC 3339. Sizes are bytes. The package has shapes only: it knows nothing of how a node makes
// them, and starts no goroutines.
package api

// Error is the body of a failed request: problem+json, RFC 9457.
type Error struct {
	Type   string `json:"type"`
	Title  string `json:"title"`  // of the status
	Status int    `json:"status"` // of HTTP
	Detail string `json:"detail"` // what failed, why, and what to do
	Code   string `json:"code"`   // name of the wire.Kind
	Part   string `json:"part,omitempty"`
	Reason string `json:"reason,omitempty"`

	Fault *Fault   `json:"fault,omitempty"` // of a plugin; replaces Part and Reason
	Put   *Outcome `json:"put,omitempty"`   // of a put; replaces Part and Reason
}

// Horizon is the answer of GET /v1/horizon.
type Horizon struct {
	Horizon   string `json:"horizon"`
	HorizonNs int64  `json:"horizon_ns"` // acq below which the box does not change any more
}

// DryRun is the answer to an erase, a purge or a retention with dry_run: nothing was changed.
type DryRun struct {
	DryRun  bool   `json:"dry_run"`
	Records uint64 `json:"records"` // that it would hide
	// Devices are those that the selector chose, in SelectNs; nil without a selector.
	Devices  *int  `json:"devices,omitempty"`
	SelectNs int64 `json:"select_ns,omitempty"`
}

// Damage is one damaged place in a file of the node.
type Damage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // -1: unknown
	Reason string `json:"reason"`
}

// CheckReport is what a check of files read and found.
type CheckReport struct {
	Segments   int   `json:"segments"`
	Blocks     int64 `json:"blocks"`
	Rows       int64 `json:"rows"` // in segments
	LogFiles   int   `json:"log_files"`
	LogAppends int64 `json:"flushes"`
	LogRows    int64 `json:"log_rows"`
	Bytes      int64 `json:"bytes"`
	Damages    int   `json:"damages"`
	// Damage is the first of the damaged places; empty in the answer of POST /v1/verify, where each
	// has a line of its own.
	Damage []Damage `json:"damage"`
	// Notes are what opening the store will repair, and what could not be read, such as replicas
	// on nodes that did not answer.
	Notes  []string `json:"notes"`
	TookNs int64    `json:"took_ns"`
}

// VerifyLine is a line in the answer of POST /v1/verify; one of the three is set.
type VerifyLine struct {
	Damage   *Damage      `json:"damage,omitempty"`
	Progress *CheckReport `json:"progress,omitempty"` // about once a second
	End      *VerifyEnd   `json:"end,omitempty"`      // the last line
}

// VerifyEnd is the report of a verification that ended.
type VerifyEnd struct {
	CheckReport
	Complete bool   `json:"complete"`
	Error    string `json:"error,omitempty"`
	Code     string `json:"code,omitempty"` // name of the wire.Kind of Error
}

// Snapshot is a directory on the node's machine that a node can be started on. It has every record
// with an acq below AcqNs.
type Snapshot struct {
	Name      string `json:"name"`
	Dir       string `json:"dir"`
	AcqNs     int64  `json:"acq_ns"`
	CreatedNs int64  `json:"created_ns"`
	Index     uint64 `json:"index,omitempty"` // of the last log entry in it, of one replica
	Segments  int    `json:"segments"`
	Bytes     int64  `json:"bytes"` // most of them shared with the node
	TookNs    int64  `json:"took_ns"`
	// Groups are the snapshots of a cluster node's replicas, in groups/GROUP.
	Groups  []GroupSnapshot `json:"groups,omitempty"`
	Damage  string          `json:"damage,omitempty"` // why nothing else is known of it
	Acq     string          `json:"acq,omitempty"`
	Created string          `json:"created,omitempty"`
}

// GroupSnapshot is the snapshot of one replica.
type GroupSnapshot struct {
	Group uint32 `json:"group"`
	AcqNs int64  `json:"acq_ns"` // it has every record of the group below
	Index uint64 `json:"index"`  // of the last entry of the group's log in it
}

// Snapshots is the answer of GET /v1/snapshots.
type Snapshots struct {
	Snapshots []Snapshot `json:"snapshots"` // by name
}

// Cursor is the position of a reader of changes, which a node keeps under a name.
type Cursor struct {
	Name        string `json:"name"`
	Acq         string `json:"acq"`
	AcqNs       int64  `json:"acq_ns"` // the reader has everything below, and continues here
	Committed   string `json:"committed"`
	CommittedNs int64  `json:"committed_ns"` // when it was committed
	BehindNs    int64  `json:"behind_ns"`    // distance to the horizon
	// Question is a digest of what the reader asks for, which no commit changes but by force.
	// Empty: it is not known.
	Question string `json:"question,omitempty"`
}

// Cursors is the answer of GET /v1/cursors.
type Cursors struct {
	Cursors []Cursor `json:"cursors"` // by name
}

// Shipping is the state of an edge node.
type Shipping struct {
	Edge         string `json:"edge"`          // its id, by which upstream knows it
	Upstream     string `json:"upstream"`      // the node that it ships to now
	WaitingBytes int64  `json:"waiting_bytes"` // of records that upstream does not have
	Quota        int64  `json:"quota_bytes"`   // limit of WaitingBytes
	Policy       string `json:"policy"`        // at the limit: block or drop-oldest
	AckedNs      int64  `json:"acked_ns"`      // when upstream accepted a batch last; 0: not yet
	ClosedAcqNs  int64  `json:"closed_acq_ns"` // everything below is shipped or dropped
	Batch        uint64 `json:"batch"`         // number of the newest batch that upstream has
	Shipped      int64  `json:"shipped_records"`
	ShippedBytes int64  `json:"shipped_bytes"`
	Replayed     int64  `json:"replayed_batches"` // that upstream already had
	Dropped      int64  `json:"dropped_records"`  // and never shipped
	DroppedBytes int64  `json:"dropped_bytes"`
	DroppedNs    int64  `json:"dropped_ns"`       // when records were dropped last; 0: never
	Losses       uint64 `json:"upstream_losses"`  // times that upstream lost accepted records
	LostNs       int64  `json:"lost_ns"`          // when a loss was noticed last; 0: never
	LostFromNs   int64  `json:"lost_from_acq_ns"` // acqs that the last loss covers
	LostToNs     int64  `json:"lost_to_acq_ns"`
	AgainRecords int64  `json:"again_records"`  // of the loss: still stored here, and sent again
	GoneRecords  int64  `json:"gone_records"`   // of the loss: removed here before, at most
	GoneToNs     int64  `json:"gone_to_acq_ns"` // acq below which they are
	RetryNs      int64  `json:"retry_ns"`       // when upstream is tried again; 0: nothing failed
	Error        string `json:"error"`          // since upstream accepted a batch last
}
