package sqltext

import "strconv"

// Bucket returns the expression of the start of the bucket of cap; cap is not negative. Without an
// operator that divides it calls intDiv.
func Bucket(widthNs int64, divide string) string {
	width := strconv.FormatInt(widthNs, 10)
	if divide == "" {
		return "intDiv(cap, " + width + ") * " + width
	}
	return "(cap " + divide + " " + width + ") * " + width
}
