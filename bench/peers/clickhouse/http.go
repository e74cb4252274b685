package clickhouse

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pentad-db/pentad/bench/peers/server"
)

const (
	maxTextBytes = 64 << 10 // of an answer or an error that is text
)

// client speaks to a server over HTTP.
type client struct {
	*http.Client
	url string
}

func newClient(port int) *client {
	c, address := server.HTTPClient(port)
	return &client{c, address + "/"}
}

// post runs a statement with the data that it wants, and returns its answer, which the caller
// closes. A statement without data is the body: in the URL it may have 16 KB only.
func (c *client) post(ctx context.Context, text string, data io.Reader) (io.ReadCloser, error) {
	address := c.url
	if data != nil {
		address += "?query=" + url.QueryEscape(text)
	} else {
		data = strings.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, data)
	if err != nil {
		return nil, err
	}
	answer, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	says, err := io.ReadAll(io.LimitReader(answer.Body, maxTextBytes))
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(says)))
}

// text runs a statement whose answer is short. It reads all of it, so that the connection is used
// again.
func (c *client) text(ctx context.Context, text string, data io.Reader) (string, error) {
	body, err := c.post(ctx, text, data)
	if err != nil {
		return "", err
	}
	defer body.Close()
	says, err := io.ReadAll(io.LimitReader(body, maxTextBytes))
	return strings.TrimSpace(string(says)), err
}
