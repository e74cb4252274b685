package store

import (
	"errors"
	"sync"
)

// errNoUse is what makes overlap end before all is made.
var errNoUse = errors.New("BUG: the error of use is returned in place of this one")

// giveFunc hands over what was made, and returns memory for what comes next.
type giveFunc[T any] func(made *T) (next *T, err error)

// overlap runs a function that makes things, one after another, on a goroutine of its own, and uses
// each while the next ones are made. In memory there are the spare ones, and what make begins with.
// The first error of use, or that of make, ends it.
func overlap[T any](
	spare []T, make_ func(give giveFunc[T]) error, use func(*T) error,
) error {
	full, empty := make(chan *T, len(spare)), make(chan *T, len(spare)+1)
	stop := make(chan struct{})
	for i := range spare {
		empty <- &spare[i]
	}
	var makeErr, useErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(full)
		makeErr = make_(func(made *T) (*T, error) {
			select {
			case full <- made:
				return <-empty, nil
			case <-stop:
				return nil, errNoUse
			}
		})
	})
	for p := range full {
		if useErr == nil {
			if useErr = use(p); useErr != nil {
				close(stop)
			}
		}
		empty <- p
	}
	wg.Wait()
	if useErr != nil {
		return useErr
	}
	return makeErr
}
