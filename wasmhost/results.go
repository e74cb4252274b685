package wasmhost

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/sdk/plugin"
)

const (
	outBytes       = 256 << 10            // space for the results of one slice, at most
	leastOutBytes  = 4 << 10              // and at least
	largeOutBytes  = maxResultSize + 1024 // space for one large result
	resultPrefix   = 4                    // length of a result of variable size
	maxResultsEver = 1 << 30
)

// finish turns all states into results.
func (s *states) finish(ctx context.Context, g *guest) ([][]byte, error) {
	fixed := int(g.entry.desc.ResultSize)
	perSlice := s.perSlice()
	capacity := uint32(outBytes)
	if fixed > 0 {
		perSlice = min(perSlice, max(1, outBytes/fixed))
		capacity = uint32(max(leastOutBytes, fixed*min(perSlice, s.groups)))
	}
	if s.heap {
		perSlice, capacity = 1, largeOutBytes
	}
	all := make([]byte, 0, min(fixed*s.groups, g.entry.host.opt.ResultBytes))
	ends := make([]int, 0, s.groups)
	for from := 0; from < s.groups; {
		if err := g.pause(ctx); err != nil {
			return nil, err
		}
		n := min(perSlice, s.groups-from)
		g.retries = fixed == 0 && (n > 1 || capacity < largeOutBytes)
		written, err := s.finishSlice(g, from, n, capacity)
		again := g.retries && tooSmall(err)
		g.retries = false
		if again && n > 1 {
			perSlice = max(1, n/8)
			continue
		}
		if again {
			written, err = s.finishSlice(g, from, 1, largeOutBytes)
		}
		if err != nil {
			return nil, err
		}
		all, ends, err = appendResults(all, ends, written, n, fixed)
		if err != nil {
			return nil, g.fail(Output, exportFinish, err.Error())
		}
		if len(all) > g.entry.host.opt.ResultBytes {
			return nil, g.fail(Limit, exportFinish, fmt.Sprintf("the results exceed the limit of "+
				"%s bytes; ask for fewer groups", grouped(uint64(g.entry.host.opt.ResultBytes))))
		}
		from += n
	}
	results := make([][]byte, len(ends))
	start := 0
	for i, end := range ends {
		results[i] = all[start:end:end]
		start = end
	}
	return results, nil
}

func tooSmall(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == plugin.StatusCapacity
}

// finishSlice finishes n states with capacity bytes for results and returns what was written,
// aliasing guest memory. When the space is too small and it is to be retried, states are as before.
func (s *states) finishSlice(g *guest, from, n int, capacity uint32) ([]byte,
	error) {
	if capacity > s.outSize {
		out, err := g.alloc(capacity)
		if err != nil {
			return nil, err
		}
		s.out, s.outSize = out, capacity
	}
	before, err := s.view(g, from, from+n)
	if err != nil {
		return nil, err
	}
	var saved []byte
	if g.retries {
		saved = append(saved, before...)
	}
	budget := budgetFor(g, n*s.size)
	if s.heap {
		budget = heapStateBudget(g, s)
	}
	length, err := g.check(&s.finishF, budget,
		uint64(s.at(from)), uint64(n), uint64(s.out), uint64(capacity))
	if g.retries && tooSmall(err) {
		if after, viewErr := s.view(g, from, from+n); viewErr == nil {
			copy(after, saved)
		}
	}
	if err != nil {
		return nil, err
	}
	if uint32(length) > capacity {
		return nil, g.fail(Output, exportFinish, fmt.Sprintf("says it wrote %d bytes into space "+
			"for %d", length, capacity))
	}
	return g.view(exportFinish, s.out, uint32(length))
}

// appendResults takes n results apart.
func appendResults(all []byte, ends []int, written []byte, n, fixed int) ([]byte, []int, error) {
	if fixed > 0 {
		if len(written) != n*fixed {
			return nil, nil, fmt.Errorf("wrote %d bytes, want %d results of %d bytes", len(written),
				n,
				fixed)
		}
		for range n {
			ends = append(ends, len(all)+fixed)
			all = append(all, written[:fixed]...)
			written = written[fixed:]
		}
		return all, ends, nil
	}
	for i := range n {
		if len(written) < resultPrefix {
			return nil, nil, fmt.Errorf("wrote %d of %d results", i, n)
		}
		size := uint64(binary.LittleEndian.Uint32(written))
		padded := (size + 3) &^ 3
		written = written[resultPrefix:]
		if size > maxResultSize || padded > uint64(len(written)) {
			return nil, nil, fmt.Errorf("result %d says it has %d bytes, %d are left", i, size,
				len(written))
		}
		all = append(all, written[:size]...)
		ends = append(ends, len(all))
		written = written[padded:]
	}
	if len(written) > 0 {
		return nil, nil, fmt.Errorf("%d bytes are left over after %d results", len(written), n)
	}
	return all, ends, nil
}
