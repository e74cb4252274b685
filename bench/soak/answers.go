package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	modelTenant = 1
	fixedTenant = 2
	fixedRows   = 1000
	firstLoad   = 11
	loadTenants = 3
)

// errLater is the refusal of a question over HTTP.
type errLater struct {
	after  time.Duration
	status string
}

func (e *errLater) Error() string { return "refused: " + e.status }

// advice returns when to try again after a refusal, and 0 with any other error.
func advice(err error) (time.Duration, error) {
	const usual = 100 * time.Millisecond
	var remote *wire.Error
	var later *errLater
	switch {
	case errors.As(err, &later):
		return max(later.after, usual), err
	case errors.As(err, &remote) && remote.Kind.Temporary():
		return max(time.Duration(remote.RetryAfterMs)*time.Millisecond, usual), err
	}
	return 0, err
}

// get asks a question and throws the answer away.
func (s *Soak) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.opt.Addr+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := s.web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		_, _ = io.Copy(io.Discard, resp.Body)                      // so that the connection stays
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 without advice
		return &errLater{time.Duration(seconds) * time.Second, resp.Status}
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // the status says enough
	return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
}

func boxOf(cid int32) record.Box { return record.Box{record.CID: {record.At(int64(cid))}} }

func number(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

func parseNumber(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
