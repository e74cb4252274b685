package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// liars is how many clients lie at the same time.
const liars = 64

// lies sends requests that lie about lengths, end in their midst or are no requests, and wants the
// node to be there afterwards.
func (s *small) lies(ctx context.Context, db *client.Client) error {
	began, answers := time.Now(), atomic.Int64{}
	var next atomic.Int64
	failed := make([]error, liars)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for next.Add(1) <= int64(s.hostile) && failed[i] == nil {
				var answered bool
				if answered, failed[i] = lie(ctx, s.addr, rng); answered {
					answers.Add(1)
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	s.figures.Add(fmt.Sprintf("%d requests that lie", s.hostile), time.Since(began).Seconds(), "s")
	s.figures.Add("of which were answered", float64(answers.Load()), "")
	if _, err := db.Horizon(ctx, &record.Box{}); err != nil {
		return fmt.Errorf("after %d requests that lie: %w", s.hostile, err)
	}
	return nil
}

// lie sends one such request, and reports whether it was answered within a second. An error means
// that the node takes no connections.
func lie(ctx context.Context, addr string, rng *rand.Rand) (answered bool, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", hostOf(addr))
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false, err
	}
	// What the node does not want to read fails here, as it may.
	_, _ = c.Write(lieOf(rng))
	n, _ := io.Copy(io.Discard, io.LimitReader(c, 1<<16))
	return n > 0, nil
}

func hostOf(addr string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if len(addr) > len(scheme) && addr[:len(scheme)] == scheme {
			return addr[len(scheme):]
		}
	}
	return addr
}

// lieOf makes a request that lies.
func lieOf(rng *rand.Rand) []byte {
	head := func(method, path string, length int, body []byte) []byte {
		return append(fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\n\r\n", method, path, wire.ContentType, length), body...)
	}
	random := make([]byte, 1+rng.IntN(4096))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	frame := binary.LittleEndian.AppendUint32(nil, uint32(1<<26-rng.IntN(1<<20)))
	frame = append(frame, random...)
	switch rng.IntN(7) {
	case 0: // a body that never comes
		return head(http.MethodPost, "/v1/put", 70<<20, random)
	case 1: // a frame that is said to be long
		return head(http.MethodPost, "/v1/put", len(frame), frame)
	case 2: // a question that is noise
		return head(http.MethodPost, "/v1/query", len(random), random)
	case 3: // noise
		return random
	case 4: // a head without an end
		return append([]byte("GET /v1/records?cid="), random...)
	case 5: // a module that is noise
		name := fmt.Sprintf("/v1/plugins/x%d", rng.IntN(50))
		return head(http.MethodPut, name, len(random), random)
	}
	// a chunk that is said to be long
	return append(fmt.Appendf(nil, "POST /v1/put HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n%x\r\n", wire.ContentType, 1<<30), random...)
}
