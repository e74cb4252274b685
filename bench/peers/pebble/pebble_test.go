package pebble

import (
	"testing"

	"github.com/pentad-db/pentad/bench/peers/peertest"
)

func TestAnswers(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			peertest.Run(t, kind, peertest.Options{Versions: true, Status: true})
			peertest.Run(t, kind, peertest.Options{})
		})
	}
}
