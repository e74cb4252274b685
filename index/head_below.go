package index

// Below returns how many rows have an acq below a moment.
//
// Cost: two binary searches.
func (h *Head) Below(acqNs int64) int {
	h.look()
	defer h.mu.RUnlock()
	return h.rows.below(acqNs)
}
