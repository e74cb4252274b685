package client

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// mute is a network on which answers begin and then nothing comes, as behind a cable that was cut.
type mute struct {
	asked int
	first []byte // of each answer
}

// RoundTrip implements http.RoundTripper.
func (m *mute) RoundTrip(r *http.Request) (*http.Response, error) {
	m.asked++
	from, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(r.Context().Err()) })
	go func() { _, _ = to.Write(m.first) }() // ends with the pipe
	return &http.Response{StatusCode: http.StatusOK, Body: from, Request: r}, nil
}

// A feed that says nothing for three heartbeats is taken for dead, and another one is begun.
func TestChangesOfADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mute{first: wire.AppendClosed(nil, 5)}
		c := &Client{nodes: &nodes{bases: []string{"http://node"}},
			http: &http.Client{Transport: m}}
		ctx, cancel := context.WithTimeout(t.Context(), 4*silenceTimeout)
		defer cancel()
		began, steps := time.Now(), 0
		for ch, err := range c.Changes(ctx, &record.Query{}, 0) {
			if err != nil || ch.ClosedNs != 5 {
				t.Fatalf("%+v, %v", ch, err)
			}
			if steps++; steps == 3 {
				break
			}
		}
		if took := time.Since(began); m.asked != 3 || took < 2*silenceTimeout ||
			took > 3*silenceTimeout {
			t.Errorf("%d connections in %v", m.asked, took)
		}
	})
}
