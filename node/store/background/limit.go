// Package background limits what the stores of a process do besides puts and queries: how many
// seals and merges run at once, and how fast files are read in search of damage.
//
// It does not know what a seal or a merge does. Its main types are [Limit] and [Scrub]. It starts
// no goroutine.
package background

// Limit limits how many seals, due merges and idle merges run at once in the stores that share it.
// A node has dozens of replicas, whose heads fill up at about the same time: without a limit they
// would occupy all processors and several times the memory.
type Limit struct{ Seals, Merges, IdleMerges Permits }

// NewLimit returns a limit of some seals, some due merges and one idle merge.
func NewLimit(seals, merges int) *Limit {
	return &Limit{make(Permits, seals), make(Permits, merges), make(Permits, 1)}
}

// Permits are as many as may run at once of one kind of work; it is full while all of them do.
type Permits chan struct{}

// Run waits for a permit and calls do while it holds it. It returns stopped, and does nothing, if
// stop is closed before.
func (p Permits) Run(stop <-chan struct{}, stopped error, do func() error) error {
	select {
	case p <- struct{}{}:
		defer func() { <-p }()
		return do()
	case <-stop:
		return stopped
	}
}
