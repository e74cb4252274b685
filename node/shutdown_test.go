package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestShutdownUnderLoad closes a node while it is written to and read from: requests in flight are
// answered, later ones are refused as unavailable, and every acknowledged record is there
// afterwards.
func TestShutdownUnderLoad(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	var acked atomic.Int64
	var wg, warm sync.WaitGroup
	for g := range 4 {
		db := dial(t, n)
		warm.Add(2)
		wg.Go(func() {
			isWarm := sync.OnceFunc(warm.Done)
			defer isWarm()
			for i := int64(0); ; i++ {
				b := &record.Batch{}
				for j := range int64(100) {
					b.Append(record.Key{CID: int32(g), MID: i*100 + j}, f64(1))
				}
				_, err := db.Put(t.Context(), b, [16]byte{}, 0)
				if ended(t, err) {
					return
				}
				acked.Add(100)
				if i == 20 {
					isWarm()
				}
			}
		})
		wg.Go(func() {
			isWarm := sync.OnceFunc(warm.Done)
			defer isWarm()
			for i := 0; ; i++ {
				_, err := db.Scan(t.Context(), &record.Query{},
					func(*record.Batch) error { return nil })
				if ended(t, err) {
					return
				}
				if i == 5 {
					isWarm()
				}
			}
		})
	}
	warm.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := n.Close(ctx); !errors.Is(err, nodeerror.ErrClosing) {
		t.Errorf("second close: %v", err)
	}
	n = openTest(t, Options{Dir: dir})
	count, _, err := n.Count(t.Context(), &record.Query{})
	if err != nil || int64(count) < acked.Load() || count%100 != 0 {
		t.Errorf("%d records acknowledged, %d there, %v", acked.Load(), count, err)
	}
}

// ended reports whether an error says that the node has gone, and fails on any other.
func ended(t *testing.T, err error) bool {
	t.Helper()
	var remote *wire.Error
	switch {
	case err == nil:
		return false
	case errors.As(err, &remote):
		if remote.Kind != wire.KindUnavailable && remote.Kind != wire.KindOverloaded {
			t.Errorf("during shutdown: %v", err)
		}
		return remote.Kind == wire.KindUnavailable
	default:
		return true // the connection is closed
	}
}

// TestCloseGivesUp closes a node with a request that does not end: it waits as long as it may.
func TestCloseGivesUp(t *testing.T) {
	n := openTest(t, Options{})
	db := dial(t, n)
	w := db.NewWriter(client.WriterOptions{})
	payload, noise := make([]byte, 10_000), rand.NewChaCha8([32]byte{})
	for i := range int64(6_000) { // 60 MB: systems buffer up to 36 for a connection
		_, _ = noise.Read(payload) // never fails; does not compress
		if err := w.Add(t.Context(), record.Key{MID: i}, payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	reading, closed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := db.Scan(t.Context(), &record.Query{}, func(*record.Batch) error {
			once.Do(func() { close(reading) })
			<-closed // a reader that is slower than the buffers of the network are large
			return nil
		})
		if err == nil {
			t.Error("an answer that was cut off came to a good end")
		}
	})
	<-reading
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := n.Close(ctx)
	close(closed)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("close took %s", took)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	wg.Wait()
}

// TestCloseWithSilentConnection closes a node to which a client holds a connection ready without
// having asked anything, as pools of clients do.
func TestCloseWithSilentConnection(t *testing.T) {
	n := openTest(t, Options{})
	silent, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dial(t, n) // asks something: the connection before it has been accepted
	ctx, cancel := context.WithTimeout(t.Context(), httpserver.ReadTimeout-10*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestShutdownBeforeServe closes a server whose goroutine has not come to serve: it must not serve
// for ever then.
func TestShutdownBeforeServe(t *testing.T) {
	n := openTest(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := n.newServer(l, nil)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	select {
	case err := <-served:
		if err != nil {
			t.Logf("serve after the end: %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("a server that was shut down serves")
	}
}
