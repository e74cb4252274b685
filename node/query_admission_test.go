package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// Forty queries at once of one tenant all have an answer with eight places, and another tenant
// has one before they are done.
func TestQueriesWaitForAPermit(t *testing.T) {
	n := openTest(t, Options{MaxQueries: 8})
	putMeters(t, n, rand.New(rand.NewPCG(1, 1)), 100)
	of := func(cid int64) *record.Query {
		q := &record.Query{}
		q.Box[record.CID] = record.RangeSet{record.At(cid)}
		return q
	}
	rows, err := n.countOf(of(1))
	if err != nil || rows == 0 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	goOn := make(chan struct{})
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			end, err := n.Query(t.Context(), of(1), func(*record.Batch) error {
				<-goOn
				return nil
			})
			if err != nil || end.Rows != rows {
				t.Errorf("%d rows of %d, %v", end.Rows, rows, err)
			}
		})
	}
	eventually(t, "34 wait", func() bool { return n.queries.Stats().Waiting == 34 })
	if _, err := n.countOf(of(2)); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	close(goOn)
	all.Wait()
}

func (n *Node) countOf(q *record.Query) (uint64, error) {
	rows, _, err := n.Count(context.Background(), q)
	return rows, err
}

// More clients than there are places ask for everything and do not read: other queries are
// answered, those of them who read later have whole answers, and the ones that would be too many
// are hung up on.
func TestClientsThatDoNotRead(t *testing.T) {
	const places, clients = 3, 9
	n := openTest(t, Options{MaxQueries: places})
	const rows = 200
	for i := range int64(rows / 5) { // more than sockets hold
		b := &record.Batch{}
		for range 5 {
			b.Append(record.Key{CID: int32(i % 4), MID: i}, make([]byte, 100_000))
		}
		if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	var stalled []net.Conn
	for range clients {
		c, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprint(c, "GET /v1/records?view=all&format=ndjson HTTP/1.1\r\n"+
			"Host: localhost\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, c)
	}
	eventually(t, "one is paused", func() bool { return n.queries.Stats().Paused > 0 })
	eventually(t, "another query is answered", func() bool {
		count, err := n.countOf(&record.Query{})
		return err == nil && count == rows
	})
	eventually(t, "all stall", func() bool { // also those that waited for a place
		st := n.queries.Stats()
		return st.Held == 0 && st.Waiting == 0 && st.Paused == places
	})
	var whole atomic.Int32
	var readers sync.WaitGroup
	for _, c := range stalled {
		readers.Go(func() {
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return
			}
			body, err := io.ReadAll(answer.Body)
			if err == nil && strings.Count(string(body), `"mid"`) == rows {
				whole.Add(1)
			}
		})
	}
	readers.Wait()
	if whole := whole.Load(); whole != places {
		t.Errorf("%d of %d clients have a whole answer, want %d", whole, clients, places)
	}
	eventually(t, "none is paused", func() bool { return n.queries.Stats().Paused == 0 })
}

// Close returns soon after the end of its context, whatever holds a query up, and the data is
// closed when that ends.
func TestCloseDoesNotWaitForAReader(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	putMeters(t, n, rand.New(rand.NewPCG(1, 1)), 100)
	blocked, goOn := make(chan struct{}), make(chan struct{})
	var reader sync.WaitGroup
	var first sync.Once
	reader.Go(func() {
		_, err := n.Query(t.Context(), &record.Query{}, func(*record.Batch) error {
			first.Do(func() { close(blocked) })
			<-goOn
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-blocked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("closed although a reader is at work: %v", err)
	}
	close(goOn)
	reader.Wait()
	eventually(t, "the data is closed", func() bool {
		n, err := Open(t.Context(), Options{Dir: dir})
		if err != nil {
			return false
		}
		return n.Close(t.Context()) == nil
	})
}
