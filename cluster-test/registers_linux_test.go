package cluster_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// A register is one reading of one device, which is corrected again and again. Clients share the
// greatest acq that any of them has met, as an application does that wants to read the newest; then
// what they see must be as if they had written and read one after another. Histories are small, as
// the time to check one grows fast: each has registers of its own.
const (
	registers        = 4
	registerClients  = 8
	registerOps      = 40 // of each client in one history
	registerDeadline = time.Minute
)

// registerInput is a read for value 0, else a write of it.
type registerInput struct {
	register int
	value    uint64
}

// registerModel is a register that several clients use: what is read was written last.
func registerModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, registers)
			for _, op := range history {
				r := op.Input.(registerInput).register
				parts[r] = append(parts[r], op)
			}
			return parts
		},
		Init: func() any { return uint64(0) },
		Step: func(state, input, output any) (bool, any) {
			if in := input.(registerInput); in.value != 0 {
				return true, in.value
			}
			return output == state, state
		},
	}
}

// chronicle is what clients of registers did, and when.
type chronicle struct {
	number int
	began  time.Time
	token  atomic.Int64 // the greatest acq that anybody has met

	mu  sync.Mutex // guards ops
	ops []porcupine.Operation
}

func (h *chronicle) now() int64 { return int64(time.Since(h.began)) }

func (h *chronicle) note(who int, in registerInput, called int64, out uint64) {
	returned := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: who, Input: in, Call: called, Output: out,
		Return: returned})
}

// met keeps an acq that queries from now on wait for.
func (h *chronicle) met(acqNs int64) {
	for {
		old := h.token.Load()
		if acqNs <= old || h.token.CompareAndSwap(old, acqNs) {
			return
		}
	}
}

// check finds a history that no single register could have.
func (h *chronicle) check() string {
	switch result := porcupine.CheckOperationsTimeout(registerModel(), h.ops,
		registerDeadline); result {
	case porcupine.Ok:
		return ""
	case porcupine.Illegal:
		return fmt.Sprintf("history %d of registers is not linearizable: %+v", h.number, h.ops)
	default:
		return fmt.Sprintf("history %d of registers, with %d steps, was not checked within %s",
			h.number, len(h.ops), registerDeadline)
	}
}

// register makes one history after another.
func (l *load) register(ctx, stop context.Context, seed uint64) {
	for number := 1; stop.Err() == nil; number++ {
		h := &chronicle{number: number, began: time.Now()}
		var wg sync.WaitGroup
		for who := range registerClients {
			rng := rand.New(rand.NewPCG(seed, uint64(number*registerClients+who)))
			wg.Go(func() { l.useRegisters(ctx, stop, h, who, rng) })
		}
		wg.Wait()
		if ctx.Err() != nil {
			return // what has no answer is not in the history
		}
		if wrong := h.check(); wrong != "" {
			l.finding("%s", wrong)
		}
		l.histories.Add(1)
		wait(stop, 200*time.Millisecond)
	}
}

func (l *load) useRegisters(
	ctx, stop context.Context, h *chronicle, who int, rng *rand.Rand,
) {
	clients := l.clients()
	id := [16]byte{0xcc, byte(who), byte(h.number), byte(h.number >> 8)}
	for op := 1; op <= registerOps && stop.Err() == nil; op++ {
		wait(stop, time.Duration(rng.Int64N(int64(l.registerPause))))
		in := registerInput{register: rng.IntN(registers)}
		if rng.IntN(2) == 0 {
			in.value = uint64(who*registerOps + op)
			l.writeRegister(ctx, h, who, in, id, uint64(op), clients, rng)
			continue
		}
		called, token := h.now(), h.token.Load()
		one, cancel := short(ctx)
		value, acqNs, err := readRegister(one, clients[rng.IntN(len(clients))].After(token), h, in)
		cancel()
		if err != nil {
			l.ask("read a register", err)
			continue
		}
		h.met(acqNs)
		h.note(who, in, called, value)
	}
}

// writeRegister writes until there is an answer.
func (l *load) writeRegister(
	ctx context.Context, h *chronicle, who int, in registerInput, id [16]byte, seq uint64,
	clients []*client.Client, rng *rand.Rand,
) {
	called := h.now()
	b := &record.Batch{}
	b.Append(h.key(in), binary.LittleEndian.AppendUint64(nil, in.value))
	for ctx.Err() == nil {
		one, cancel := short(ctx)
		reply, err := clients[rng.IntN(len(clients))].Put(one, b, id, seq)
		cancel()
		if err == nil {
			h.met(reply.LastAcqNs)
			h.note(who, in, called, 0)
			return
		}
		l.judge("write a register", err)
		wait(ctx, 20*time.Millisecond)
	}
}

// key is the reading that a register is.
func (h *chronicle) key(in registerInput) record.Key {
	return record.Key{CID: registerTenant, MID: int64(in.register) << 12, MOID: 1,
		CapNs: int64(h.number)}
}

func readRegister(
	ctx context.Context, c *client.Client, h *chronicle, in registerInput,
) (value uint64, acqNs int64, err error) {
	k := h.key(in)
	q := &record.Query{View: record.ViewLatest}
	q.Box[record.CID] = record.RangeSet{record.At(int64(k.CID))}
	q.Box[record.MID] = record.RangeSet{record.At(k.MID)}
	q.Box[record.Cap] = record.RangeSet{record.At(k.CapNs)}
	for r, err := range c.Query(ctx, q) {
		if err != nil {
			return 0, 0, err
		}
		if acqNs != 0 || len(r.Payload) != 8 {
			return 0, 0, fmt.Errorf("a register has two values, or an odd one: %+v", r)
		}
		value, acqNs = binary.LittleEndian.Uint64(r.Payload), r.AcqNs
	}
	return value, acqNs, nil
}

// TestHistoriesAreChecked plants a read that comes too late.
func TestHistoriesAreChecked(t *testing.T) {
	f := func(read uint64, want bool) {
		t.Helper()
		h := &chronicle{number: 1}
		step := func(who int, called, returned int64, value, out uint64) {
			h.ops = append(h.ops, porcupine.Operation{ClientId: who, Call: called, Return: returned,
				Input: registerInput{1, value}, Output: out})
		}
		step(1, 1, 2, 7, 0)
		step(2, 3, 10, 8, 0) // in progress during the reads
		step(3, 4, 5, 0, 8)
		step(4, 6, 7, 0, read)
		if got := h.check() == ""; got != want {
			t.Errorf("read %d after 8 was read: linearizable %v, want %v", read, got, want)
		}
	}
	f(8, true)
	f(7, false) // going back
	f(0, false)
	f(9, false) // never written
}
