package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/client"
)

// positionFile keeps how far records were put that get new acqs.
type positionFile struct {
	path  string
	saved []byte // what it holds, nil when it is not there
}

// read reads the position, a new one when there is no file.
func (f *positionFile) read() (p *nodesync.Position, err error) {
	p = &nodesync.Position{}
	f.saved, err = os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read position: %w", err)
	}
	if err := json.Unmarshal(f.saved, p); err != nil || p.Source == "" {
		return nil, cli.Usagef("--restamp %s: not a position of pentad sync: %w", f.path,
			errors.Join(err, errors.New("use the file of the last run, or a new one")))
	}
	return p, nil
}

// save makes a position durable, unless another run has done so meanwhile.
func (f *positionFile) save(p *nodesync.Position) error {
	now, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read position: %w", err)
	}
	if !bytes.Equal(now, f.saved) {
		return fmt.Errorf("%s: changed by another run; run one at a time", f.path)
	}
	text, err := json.Marshal(p)
	if err == nil {
		text = append(text, '\n')
		err = durable.ReplaceShared(f.path, durable.Content(text))
	}
	if err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	f.saved = text
	return nil
}

// restamp puts the records of a source into a target that gives them acqs of its own.
func restamp(
	ctx context.Context, source, target *client.Client, path string, opt nodesync.Options,
) (nodesync.Report, error) {
	f := &positionFile{path: path}
	p, err := f.read()
	if err != nil {
		return nodesync.Report{}, err
	}
	return nodesync.Restamp(ctx, source, target, p, f.save, opt)
}
