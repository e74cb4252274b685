package main

import (
	"runtime"
	"time"

	"github.com/pentad-db/pentad/bench/process"
)

// inTurns measures what is compared in turn: a piece of each in every round.
type inTurns struct {
	rounds int
	piece  time.Duration
}

// medianOf returns the median of values, which keep their order.
func medianOf(values []float64) float64 { return median(append([]float64(nil), values...)) }

// ratioOf returns the median of the ratios of values of the same round.
func ratioOf(over, under []float64) float64 {
	ratios := make([]float64, len(over))
	for i := range over {
		ratios[i] = over[i] / under[i]
	}
	return median(ratios)
}

// inTurn runs functions in turn, each for a piece in every round, and returns the ns of processor
// time that a call of each took per round. What they do must be done by their own thread.
func (t *inTurns) inTurn(functions ...func() error) (took [][]float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took = make([][]float64, len(functions))
	calls := make([]int, len(functions))
	for i, f := range functions {
		if calls[i], err = t.callsPerPiece(f); err != nil {
			return nil, err
		}
	}
	for range t.rounds {
		for i, f := range functions {
			spent, err := threadTime(f, calls[i])
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], float64(spent)/float64(calls[i]))
		}
	}
	return took, nil
}

// callsPerPiece also warms what f uses.
func (t *inTurns) callsPerPiece(f func() error) (int, error) {
	for n := 1; ; n *= 2 {
		spent, err := threadTime(f, n)
		if err != nil {
			return 0, err
		}
		if spent >= t.piece/4 {
			return max(1, int(float64(n)*float64(t.piece)/float64(spent))), nil
		}
	}
}

func threadTime(f func() error, n int) (time.Duration, error) {
	began, err := process.ThreadTime()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	ended, err := process.ThreadTime()
	return ended - began, err
}
