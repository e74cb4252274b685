package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pentad-db/pentad/sdk/wire"
)

// SnapshotInfo describes a snapshot: a directory on the node's machine that a node can be started
// on, with every record whose acq is below AcqNs.
type SnapshotInfo struct {
	Name      string `json:"name"`
	Dir       string `json:"dir"`
	AcqNs     int64  `json:"acq_ns"`
	CreatedNs int64  `json:"created_ns"`
	Segments  int    `json:"segments"`
	Bytes     int64  `json:"bytes"` // most of them shared with the node
	TookNs    int64  `json:"took_ns"`
	Damage    string `json:"damage"` // why nothing else is known of it, "" when it is well
	// Groups are the replicas of which the snapshot of a node of a cluster is, in groups/GROUP.
	Groups []GroupSnapshot `json:"groups"`
}

// GroupSnapshot is the snapshot of a replica.
type GroupSnapshot struct {
	Group uint32 `json:"group"`
	AcqNs int64  `json:"acq_ns"` // it has every record of the group below
	Index uint64 `json:"index"`  // of the last command of the group's log in it
}

// CreateSnapshot makes a snapshot of the node. It takes no longer for more data.
func (c *Client) CreateSnapshot(ctx context.Context, name string) (SnapshotInfo, error) {
	var info SnapshotInfo
	err := c.doJSON(ctx, http.MethodPost, "/v1/snapshots?name="+url.QueryEscape(name), "", nil,
		&info)
	return info, err
}

// Snapshots lists the snapshots of the node by name.
func (c *Client) Snapshots(ctx context.Context) ([]SnapshotInfo, error) {
	var out struct {
		Snapshots []SnapshotInfo `json:"snapshots"`
	}
	err := c.getJSON(ctx, "/v1/snapshots", &out)
	return out.Snapshots, err
}

// RemoveSnapshot removes a snapshot of the node.
func (c *Client) RemoveSnapshot(ctx context.Context, name string) error {
	var out struct{}
	return c.doJSON(ctx, http.MethodDelete, "/v1/snapshots/"+url.PathEscape(name), "", nil, &out)
}

// Damage is one damaged place in a file of the node.
type Damage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // -1: not known
	Reason string `json:"reason"`
}

// VerifyReport says what a verification read and found so far.
type VerifyReport struct {
	Segments int   `json:"segments"`
	Blocks   int64 `json:"blocks"`
	Rows     int64 `json:"rows"` // in sealed segments
	LogFiles int   `json:"log_files"`
	Flushes  int64 `json:"flushes"`
	LogRows  int64 `json:"log_rows"`
	Bytes    int64 `json:"bytes"`
	Damages  int   `json:"damages"`
	TookNs   int64 `json:"took_ns"`
	// Notes say what could not be looked at, such as replicas of nodes that did not answer.
	Notes []string `json:"notes"`
}

// VerifyOptions of a verification. The zero value works.
type VerifyOptions struct {
	BytesPerSec int64                      // how fast the node reads at most; 0: as it can
	Damage      func(Damage)               // called for each damaged place; may be nil
	Progress    func(report *VerifyReport) // called about once a second; may be nil
	// Segment is the number of the only segment that is read, and Group that of its replica, 0 of a
	// node that is in no cluster; 0: everything is.
	Segment uint64
	Group   uint32
}

// Verify makes the node read everything that it stores while it goes on working, and reports what
// is damaged. Damage is no error.
//
// Errors: those of Client; ErrNoEnd when the answer broke off.
func (c *Client) Verify(ctx context.Context, opt VerifyOptions) (VerifyReport, error) {
	args := url.Values{}
	if opt.BytesPerSec > 0 {
		args.Set("rate", strconv.FormatInt(opt.BytesPerSec, 10))
	}
	if opt.Segment > 0 {
		args.Set("segment", strconv.FormatUint(opt.Segment, 10))
		args.Set("group", strconv.FormatUint(uint64(opt.Group), 10))
	}
	path := "/v1/verify?" + args.Encode()
	body, err := c.do(ctx, http.MethodPost, path, "", nil)
	if err != nil {
		return VerifyReport{}, err
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxErrorBytes)
	for lines.Scan() {
		var line struct {
			Damage   *Damage
			Progress *VerifyReport
			End      *struct {
				VerifyReport
				Complete    bool
				Error, Code string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return VerifyReport{}, fmt.Errorf("POST /v1/verify: %w", err)
		}
		switch {
		case line.End != nil && line.End.Complete:
			return line.End.VerifyReport, nil
		case line.End != nil:
			return line.End.VerifyReport, &wire.Error{Kind: wire.ParseKind(line.End.Code),
				Message: line.End.Error}
		case line.Damage != nil && opt.Damage != nil:
			opt.Damage(*line.Damage)
		case line.Progress != nil && opt.Progress != nil:
			opt.Progress(line.Progress)
		}
	}
	if ctx.Err() != nil {
		return VerifyReport{}, context.Cause(ctx)
	}
	return VerifyReport{}, ErrNoEnd
}
