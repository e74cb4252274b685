//go:build race

package store

// raceEnabled: the race detector makes pools forget at random.
const raceEnabled = true
