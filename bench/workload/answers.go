package workload

import (
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Answers makes phases again and answers queries by looking at every row: by query and box. The
// boxes are divided among the processors.
func Answers(phases []Phase, queries []Query) ([][]Answer, error) {
	workers := runtime.GOMAXPROCS(0)
	shares := make([][][]Answer, workers)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { shares[w], errs[w] = share(phases, queries, w, workers) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := make([][]Answer, len(queries))
	for i, q := range queries {
		out[i] = make([]Answer, len(q.Boxes))
		for j := range q.Boxes {
			out[i][j] = shares[j%workers][i][j/workers]
		}
	}
	return out, nil
}

// share answers every box whose number leaves remainder w.
func share(phases []Phase, queries []Query, w, workers int) ([][]Answer, error) {
	mine := slices.Clone(queries)
	for i := range mine {
		var boxes []system.Query
		for j := w; j < len(queries[i].Boxes); j += workers {
			boxes = append(boxes, queries[i].Boxes[j])
		}
		mine[i].Boxes = boxes
	}
	o, err := NewOracle(mine)
	if err != nil {
		return nil, err
	}
	var b record.Batch
	for _, p := range phases {
		s, err := p.Stream()
		if err != nil {
			return nil, err
		}
		for s.Next(&b) {
			o.Add(&b)
		}
		if err := s.Err(); err != nil {
			return nil, err
		}
	}
	answers := o.Answers()
	for len(answers) < len(queries) { // the last queries have no box of this share
		answers = append(answers, nil)
	}
	return answers, nil
}
