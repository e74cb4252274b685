package store

import (
	"sync"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// sealBuffers is the memory of a seal, as much as the rows and half of it more.
type sealBuffers struct {
	rows      record.Batch
	layouts   [6]index.Layout // parts are clustered while those before are written
	clusterer index.Clusterer
}

// sealBufferPool is what is left of the last seals, of any store.
var sealBufferPool = sync.Pool{New: func() any { return new(sealBuffers) }}

// keptSealBuffers is for how long a store that is not sealing keeps the memory of its last seals
// from the garbage collector: to touch memory for the first time takes two to three times as long
// as what a seal does in it.
const keptSealBuffers = 5 * time.Second

// sealBufferStock is the memory of the last seals of a store, of each that may run at once.
type sealBufferStock chan *sealBuffers

func (k sealBufferStock) take() *sealBuffers {
	select {
	case w := <-k:
		return w
	default:
		return sealBufferPool.Get().(*sealBuffers)
	}
}

func (k sealBufferStock) keep(w *sealBuffers) {
	w.dropLargePayloads()
	select {
	case k <- w:
	default:
		sealBufferPool.Put(w)
	}
}

// release leaves all to the next seal of any store, or the garbage collector.
func (k sealBufferStock) release() {
	for {
		select {
		case w := <-k:
			sealBufferPool.Put(w)
		default:
			return
		}
	}
}

// keptPayloads is how many bytes of payloads a seal may leave space for to the next one.
const keptPayloads = 64 << 20

func (w *sealBuffers) dropLargePayloads() {
	if cap(w.rows.Data) > keptPayloads {
		w.rows.Data = nil
	}
}

func (w *sealBuffers) giveBack() {
	w.dropLargePayloads()
	sealBufferPool.Put(w)
}
