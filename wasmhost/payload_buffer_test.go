package wasmhost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// inBuffer returns the batch with its payloads at an offset of a buffer, as many as fit.
func inBuffer(b *record.Batch, buffer []byte, at int) *record.Batch {
	b = b.Head(min(b.Len(), (len(buffer)-at)/b.Stride))
	data := buffer[at:at:len(buffer)]
	b.Data = append(data, b.Data[:b.Len()*b.Stride]...)
	return b
}

// Payloads that were put together in the buffer of an instance count as others do, wherever in it
// they lie; those at a multiple of 64 are not copied.
func TestPayloadBuffer(t *testing.T) {
	ctx := t.Context()
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	rng := random(1)
	var aggregates [2]*Aggregate // without and with a buffer
	for i := range aggregates {
		a, err := m.NewAggregate(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		aggregates[i] = a
	}
	there := 0
	for range 60 {
		list := make([]int64, 1+rng.IntN(6000))
		for i := range list {
			list[i] = rng.Int64N(1 << 40)
		}
		buffer := aggregates[1].PayloadBuffer(ctx)
		if len(buffer) != bufferBytes {
			t.Fatalf("a buffer of %d bytes", len(buffer))
		}
		at := []int{0, 8, 64, 1000}[rng.IntN(4)]
		b := values(list...)
		lent := inBuffer(b, buffer, at)
		if aggregates[1].columns.lentAt(aggregates[1].guest, lent.Data) != 0 {
			there++
		}
		for i, b := range []*record.Batch{b.Head(lent.Len()), lent} {
			if err := aggregates[i].Add(ctx, b, nil, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if there == 0 {
		t.Error("nothing lay in the buffer")
	}
	var results [2][]byte
	for i, a := range aggregates {
		out, err := a.Finish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		results[i] = out[0]
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Errorf("with a buffer %d, without %d", decodeSum(results[1]), decodeSum(results[0]))
	}
	if buffer := aggregates[1].PayloadBuffer(ctx); buffer != nil && aggregates[1].Close() == nil &&
		aggregates[1].PayloadBuffer(ctx) != nil {
		t.Error("a closed instance has a buffer")
	}
}

// What the host writes of a batch in the buffer is where its data lies.
func TestPayloadBufferIsNotCopied(t *testing.T) {
	ctx := t.Context()
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(probe(plugin.NeedData)))
	defer m.Close()
	a, err := m.NewAggregate(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := inBuffer(values(1, 2, 3), a.PayloadBuffer(ctx), 64)
	if err := a.Add(ctx, b, nil, 1); err != nil {
		t.Fatal(err)
	}
	header, _ := a.guest.memory.Read(a.columns.region, plugin.BatchHeaderSize)
	data, size := binary.LittleEndian.Uint32(header[44:]), binary.LittleEndian.Uint32(header[48:])
	if data != a.columns.buffer+64 || size != 24 ||
		binary.LittleEndian.Uint32(header[12:]) != plugin.NeedData {
		t.Errorf("%d bytes of data at %#x, the buffer is at %#x", size, data, a.columns.buffer)
	}
}

// A plugin that reads no payloads has no buffer for them, nor has one with little memory.
func TestNoPayloadBuffer(t *testing.T) {
	f := func(opt Options, change func(*asm)) {
		t.Helper()
		h := newTestHost(t, opt)
		m := mustLoad(t, h, good(change))
		defer m.Close()
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if buffer := a.PayloadBuffer(t.Context()); buffer != nil {
			t.Errorf("a buffer of %d bytes", len(buffer))
		}
	}
	f(Options{}, probe(plugin.NeedMID))
	f(Options{MemoryPages: 31}, nil)
}

// A guest that has no memory when it is asked for some fails, and adding rows returns its error.
func TestPayloadBufferFails(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) { a.replace(exportAlloc, "", i32c(0)) }))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if buffer := a.PayloadBuffer(t.Context()); buffer != nil {
		t.Errorf("a buffer of %d bytes", len(buffer))
	}
	for range 2 {
		var e *Error
		err := a.Add(t.Context(), values(1), nil, 1)
		if !errors.As(err, &e) || e.Kind != Memory || e.Export != exportAlloc {
			t.Errorf("added to a guest without memory: %v", err)
		}
	}
}

// Whatever numbers of groups an aggregate comes to on its way to as many as it may have, its memory
// suffices.
func TestStatesGrowInAnySteps(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := random(seed)
	for range 30 {
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var steps []int
		a.PayloadBuffer(t.Context())
		for groups := 1; err == nil; groups += rng.IntN(a.Capacity() - groups + 1) {
			steps = append(steps, groups)
			err = a.Add(t.Context(), values(1, 2), []uint32{0, uint32(groups - 1)}, groups)
			if groups == a.Capacity() || len(steps) > 40 {
				break
			}
		}
		if err == nil {
			err = a.Add(t.Context(), values(1), []uint32{0}, a.Capacity())
		}
		if err != nil {
			t.Errorf("by way of %d groups: %v", steps, err)
		}
		_ = a.Close() // Add has told what went wrong
	}
}
