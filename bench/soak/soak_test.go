package soak

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// serve opens a node in this process.
func serve(t *testing.T) (*node.Node, Options) {
	t.Helper()
	dir := t.TempDir()
	n, err := node.Open(t.Context(), node.Options{Dir: dir, Listen: "127.0.0.1:0",
		MemoryBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return n, Options{Addr: "http://" + n.Addr().String(), Pid: os.Getpid(), Dir: dir, Seed: seed,
		Age: 5 * time.Minute, Every: 200 * time.Millisecond, Say: t.Logf}
}

// TestSoak is as long as every client needs for its steps, or PENTAD_SOAK_FOR.
func TestSoak(t *testing.T) {
	_, opt := serve(t)
	opt.Steps = 5 // of housekeeping, each another
	if text := os.Getenv("PENTAD_SOAK_FOR"); text != "" {
		var err error
		if opt.For, err = time.ParseDuration(text); err != nil {
			t.Fatalf("PENTAD_SOAK_FOR: %v", err)
		}
	}
	r, err := New(opt).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Left(); err != nil {
		t.Error(err)
	}
	for _, w := range r.Workers {
		if w.Steps < opt.Steps {
			t.Errorf("%s did %d steps", w.Name, w.Steps)
		}
	}
	if r.Checked == 0 || r.Records == 0 || len(r.Samples) == 0 || r.After.Rows == 0 {
		t.Errorf("%d answers compared, %d records, %d samples, %+v", r.Checked, r.Records,
			len(r.Samples), r.After)
	}
}

// TestSoakSeesWrongAnswers lets another client put what the soak does not know of.
func TestSoakSeesWrongAnswers(t *testing.T) {
	f := func(cid int32, want string) {
		t.Helper()
		n, opt := serve(t)
		opt.Steps = 1 << 40
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		meddled := make(chan error)
		go func() {
			defer close(meddled)
			for tick := time.NewTicker(20 * time.Millisecond); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
				var b record.Batch
				b.Append(record.Key{CID: cid, MID: 1, CapNs: 1}, number(nil, 1))
				_, err := n.Put(ctx, &b, store.WriterSeq{})
				if err != nil && !errors.Is(err, context.Canceled) {
					meddled <- err
				}
			}
		}()
		_, err := New(opt).Run(ctx)
		cancel()
		for err := range meddled {
			t.Error(err)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("records of tenant %d that it does not know of: %v", cid, err)
		}
	}
	f(modelTenant, "model, after")
	f(firstLoad, "tenant 11")
}
