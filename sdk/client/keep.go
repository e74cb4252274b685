package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

// CreateSnapshot makes a snapshot of the node. It takes no longer for more data.
func (c *Client) CreateSnapshot(ctx context.Context, name string) (SnapshotInfo, error) {
	var info SnapshotInfo
	err := c.doJSON(ctx, http.MethodPost, "/v1/snapshots?name="+url.QueryEscape(name), "", nil,
		&info)
	return info, err
}

// Snapshots lists the snapshots of the node by name.
func (c *Client) Snapshots(ctx context.Context) ([]SnapshotInfo, error) {
	var out api.Snapshots
	err := c.getJSON(ctx, "/v1/snapshots", &out)
	return out.Snapshots, err
}

// RemoveSnapshot removes a snapshot of the node.
func (c *Client) RemoveSnapshot(ctx context.Context, name string) error {
	var out struct{}
	return c.doJSON(ctx, http.MethodDelete, "/v1/snapshots/"+url.PathEscape(name), "", nil, &out)
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
		var line api.VerifyLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return VerifyReport{}, fmt.Errorf("POST /v1/verify: %w", err)
		}
		switch {
		case line.End != nil && line.End.Complete:
			return line.End.CheckReport, nil
		case line.End != nil:
			return line.End.CheckReport, &wire.Error{Kind: wire.ParseKind(line.End.Code),
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
