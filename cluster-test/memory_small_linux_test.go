package cluster_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// smallNode is the memory of a node in a small container.
const smallNode = 256 << 20

// noise returns records of a tenant whose payloads cannot be compressed.
func noise(tenant, rows, payloadBytes int) *record.Batch {
	random := rand.NewChaCha8([32]byte{byte(tenant)})
	b := &record.Batch{}
	for i := range rows {
		payload := make([]byte, payloadBytes)
		_, _ = random.Read(payload) // never fails
		b.Append(record.Key{CID: int32(tenant), MID: int64(i % 500), MOID: 1, CapNs: int64(i)},
			payload)
	}
	return b
}

// A node with little memory takes no more than that: it says of a put that never fits that it is
// too large, and stores large ones, many at once, also beside ordered answers.
func TestSmallMemoryIsBounded(t *testing.T) {
	rounds.NotUnderRace(t, "the detector takes several times the memory")
	n := &process{bin: build(t), dir: t.TempDir(), addr: freeAddress(t),
		args: []string{"--memory", fmt.Sprint(smallNode)}}
	t.Cleanup(n.kill)
	n.start(t)
	c, err := client.Dial(t.Context(), n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	n.takes(t, smallNode, "a put that never fits", func() {
		_, err := c.Put(t.Context(), noise(1, 20, 3_000_000), [16]byte{}, 0)
		var remote *wire.Error
		if !errors.As(err, &remote) || remote.Kind != wire.KindTooLarge ||
			!strings.Contains(remote.Message, "--memory") {
			t.Errorf("60 MB: %v", err)
		}
	})
	small, large := noise(2, 1000, 512), noise(3, 20, 400_000)
	put := func(b *record.Batch) error {
		_, err := c.Put(t.Context(), b, [16]byte{}, 0)
		return err
	}
	n.takes(t, smallNode, "many puts", func() {
		together(t, rounds.Of(12, 8, 8), func(int) error { return put(small) })
	})
	n.takes(t, smallNode, "ordered answers beside large puts", func() {
		together(t, 1, func(client int) error {
			if client%4 == 0 {
				return put(large)
			}
			_, err := scanOf(t, c, 2, record.OrderKey)
			return err
		})
	})
}
