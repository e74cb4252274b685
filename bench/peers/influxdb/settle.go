package influxdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

const (
	settlePause = 500 * time.Millisecond // between looks at the files
	// restLooks is how many times in a row they must look the same: compactions are planned once a
	// second, for shards that rested for a second.
	restLooks   = 8
	settleLimit = 2 * time.Hour
)

// Settle waits: nothing forces a compaction in InfluxDB 1. A second after the last write the cache
// becomes a TSM file, then all files of a shard are compacted; it is over when no file has changed
// for four seconds and none is temporary.
func (d *db) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var before string
	for same := 0; same < restLooks; same++ {
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return fmt.Errorf("wait for compactions: %w", ctx.Err())
		}
		now, busy, err := d.files()
		if err != nil {
			return err
		}
		if busy || now != before {
			same = 0
		}
		before = now
	}
	return nil
}

// files returns a picture of the files, and whether some are in the making or going.
func (d *db) files() (picture string, busy bool, err error) {
	var out strings.Builder
	err = filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			busy = true
		case err != nil:
			return err
		case !entry.IsDir():
			fmt.Fprintln(&out, path, info.Size(), info.ModTime().UnixNano())
			busy = busy || filepath.Ext(path) == ".tmp"
		}
		return nil
	})
	return out.String(), busy, err
}
