//go:build !amd64 && !arm64

package segment

func prefetch(*byte, int) {}

func prefetchRows(*byte, int, *Span, int) {}
