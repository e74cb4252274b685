package admission

// Places bounds what runs at the same time, without a queue: its capacity is the number.
type Places chan struct{}

// NewPlaces returns free places.
func NewPlaces(number int) Places { return make(Places, number) }

// Take takes a place, and reports whether one was free. The caller frees it.
func (p Places) Take() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

// Free frees a place that was taken.
func (p Places) Free() { <-p }

// Drain waits until all places are free. None is free afterwards.
func (p Places) Drain() {
	for range cap(p) {
		p <- struct{}{}
	}
}
