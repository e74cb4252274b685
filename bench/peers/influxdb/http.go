package influxdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/bench/peers/server"
)

const (
	database = "bench"

	maxTextBytes = 64 << 10 // of an error
)

// client speaks to a server over HTTP.
type client struct {
	*http.Client
	url string
}

func newClient(port int) *client {
	c, address := server.HTTPClient(port)
	return &client{c, address}
}

// do sends a request and returns its answer, which the caller closes.
func (c *client) do(
	ctx context.Context, path, kind string, data io.Reader,
) (*http.Response, error) {
	method := http.MethodPost
	if data == nil {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, data)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/x-msgpack")
	answer, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	says, err := io.ReadAll(io.LimitReader(answer.Body, maxTextBytes))
	return nil, errors.Join(fmt.Errorf("%s: %q", answer.Status, says), err)
}

// ping returns the version of a server that is ready.
func (c *client) ping(ctx context.Context) (string, error) {
	answer, err := c.do(ctx, "/ping", "text/plain", nil)
	if err != nil {
		return "", err
	}
	return answer.Header.Get("X-Influxdb-Version"), answer.Body.Close()
}

// write writes lines.
func (c *client) write(ctx context.Context, lines io.Reader) error {
	answer, err := c.do(ctx, "/write?precision=ns&db="+database, "text/plain", lines)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// chunkRows is how many rows a chunk holds at most: as many as by default.
const chunkRows = 10_000

// query runs a statement and returns its answer in msgpack, which the caller closes.
func (c *client) query(ctx context.Context, text string, chunked bool) (io.ReadCloser, error) {
	form := url.Values{"q": {text}, "db": {database}, "epoch": {"ns"}}
	if chunked {
		form.Set("chunked", "true")
		form.Set("chunk_size", strconv.Itoa(chunkRows))
	}
	answer, err := c.do(ctx, "/query", "application/x-www-form-urlencoded",
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// run runs a statement that answers nothing.
func (c *client) run(ctx context.Context, text string) error {
	body, err := c.query(ctx, text, false)
	if err != nil {
		return err
	}
	defer body.Close()
	return (&reader{}).read(body)
}
