package victoriametrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/bench/peers/server"
)

const maxTextBytes = 64 << 10 // of an error

// client speaks to a server over HTTP. One goroutine uses it.
type client struct {
	*http.Client
	url    string
	answer bytes.Buffer
}

func newClient(port int) *client {
	c, address := server.HTTPClient(port)
	return &client{Client: c, url: address}
}

// get returns an answer, which is good until the next request.
func (c *client) get(ctx context.Context, path string, form url.Values) ([]byte, error) {
	address := c.url + path
	if form != nil {
		address += "?" + form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if len(address) > maxTextBytes { // a long list of devices
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, c.url+path,
			strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return c.do(req)
}

func (c *client) post(ctx context.Context, path string, data io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, data)
	if err != nil {
		return err
	}
	_, err = c.do(req)
	return err
}

func (c *client) do(req *http.Request) ([]byte, error) {
	answer, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	c.answer.Reset()
	_, err = c.answer.ReadFrom(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	says := c.answer.Bytes()
	if answer.StatusCode/100 != 2 {
		err = errors.Join(fmt.Errorf("%s: %q", answer.Status,
			says[:min(len(says), maxTextBytes)]), err)
	}
	return says, err
}

const (
	settlePause = 250 * time.Millisecond // between looks at the number of merges
	// restLooks is how many times in a row none must run: a merge that is asked for begins later.
	restLooks = 6
)

// Settle writes what is in memory to disk and merges it into one part per month.
func (d *db) Settle(ctx context.Context) error {
	for _, path := range []string{"/internal/force_flush", "/internal/force_merge"} {
		if _, err := d.http.get(ctx, path, nil); err != nil {
			return err
		}
	}
	for still := 0; still < restLooks; still++ {
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return ctx.Err()
		}
		text, err := d.http.get(ctx, "/metrics", nil)
		if err != nil {
			return err
		}
		if merges(text) {
			still = 0
		}
	}
	return nil
}

// merges reports whether parts are being merged.
func merges(metrics []byte) bool {
	for line := range bytes.Lines(metrics) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !bytes.HasPrefix(name, []byte("vm_active_merges{")) &&
			!bytes.Equal(name, []byte("vm_active_force_merges")) {
			continue
		}
		if n, err := strconv.ParseFloat(string(value), 64); err != nil || n > 0 {
			return true
		}
	}
	return false
}
