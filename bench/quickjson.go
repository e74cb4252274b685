package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	jsonBatch    = 10_000 // records of a body
	jsonInFlight = 2      // bodies, so that the node does not wait for the disk
	jsonPasses   = 3      // over an answer; the best counts, as the node merges meanwhile
	jsonPart     = 20     // of the records of the workload, one is posted

	barJSON = 0.25 // M records/s
)

// jsonForm is how a payload is in JSON.
type jsonForm struct {
	name, payloadType string
	member            func(dst, payload []byte) []byte
}

func jsonForms() []jsonForm {
	return []jsonForm{
		{"numbers", "f64", func(dst, payload []byte) []byte {
			f := math.Float64frombits(binary.LittleEndian.Uint64(payload))
			return strconv.AppendFloat(append(dst, `"value":`...), f, 'f', -1, 64)
		}},
		{"base64", "base64", func(dst, payload []byte) []byte {
			dst = base64.StdEncoding.AppendEncode(append(dst, `"payload":"`...), payload)
			return append(dst, '"')
		}},
	}
}

// json posts records as NDJSON to a node that runs on one core, and reads them as NDJSON and CSV.
// Figures are for the processor time of the node, in the kernel, too: neighbours do not slow it.
func (q *quick) json(ctx context.Context) error {
	for _, form := range jsonForms() {
		if err := q.jsonOf(ctx, form); err != nil {
			return err
		}
	}
	return nil
}

func (q *quick) jsonOf(ctx context.Context, form jsonForm) (err error) {
	dir := filepath.Join(q.work, "json")
	if err := os.RemoveAll(dir); err != nil { // of a run that was interrupted
		return err
	}
	node, err := serveOneCore(ctx, q.pentad, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.stop(), os.RemoveAll(dir)) }()
	j := jsonAsker{node: node, client: &http.Client{Transport: &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: jsonInFlight}}}
	defer j.client.CloseIdleConnections()
	bodies, records, moids := q.bodies(form)
	if form.payloadType != "base64" {
		for moid := range moids {
			if err := j.declare(ctx, moid, form.payloadType); err != nil {
				return err
			}
		}
	}
	took, spent, err := j.post(ctx, bodies)
	if err != nil {
		return err
	}
	q.say("posted %d records as NDJSON, %s, in %.1f s, of the node's processor time %.1f s",
		records, form.name, took.Seconds(), spent.Seconds())
	q.Figures.AtLeast("NDJSON ingest, "+form.name+", one core", rate(int64(records), spent),
		"M records/s", barJSON)
	for _, a := range []struct{ name, accept, coding string }{
		{"NDJSON", "application/x-ndjson", ""}, {"CSV", "text/csv", ""},
		{"NDJSON in gzip", "application/x-ndjson", "gzip"}} {
		spent, err := j.read(ctx, a.accept, a.coding, records)
		if err != nil {
			return err
		}
		q.Figures.Add(fmt.Sprintf("%s answer, %s, one core", a.name, form.name),
			rate(int64(records), spent), "M rows/s")
	}
	return nil
}

// bodies returns a part of the workload as NDJSON, and its quantities.
func (q *quick) bodies(form jsonForm) (bodies [][]byte, records int, moids map[int32]bool) {
	most := max(q.rows/jsonPart, 1)
	moids = map[int32]bool{}
	var b record.Batch
	var body []byte
	inBody := 0
	end := func() {
		if inBody > 0 {
			bodies = append(bodies, body)
		}
		body, inBody = nil, 0
	}
	for s := q.config.NewStream(); records < most && s.Next(&b); {
		for i := 0; i < b.Len() && records < most; i++ {
			moids[b.MOID[i]] = true
			body = fmt.Appendf(body, `{"cid":%d,"mid":%d,"moid":%d,"cap":"%s",`, b.CID[i], b.MID[i],
				b.MOID[i], record.FormatNs(b.CapNs[i]))
			body = append(form.member(body, b.Payload(i)), "}\n"...)
			records++
			if inBody++; inBody == jsonBatch {
				end()
			}
		}
	}
	end()
	return bodies, records, moids
}

// jsonAsker is a client of the JSON interface.
type jsonAsker struct {
	node   *served
	client *http.Client
}

// do sends a request and calls read with the body of a good answer.
func (j *jsonAsker) do(
	ctx context.Context, method, path string, header http.Header, body []byte,
	read func(io.Reader) error,
) error {
	req, err := http.NewRequestWithContext(ctx, method, j.node.addr+path,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := j.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // for the error
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, text)
	}
	return read(resp.Body)
}

func readAway(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func (j *jsonAsker) declare(ctx context.Context, moid int32, payloadType string) error {
	body := fmt.Appendf(nil, `{"name":"q%d","type":%q}`, moid, payloadType)
	return j.do(ctx, http.MethodPut, fmt.Sprintf("/v1/quantities/%d", moid), nil, body, readAway)
}

// post stores all bodies, and returns how long it took and how much of the node's processor time.
func (j *jsonAsker) post(
	ctx context.Context, bodies [][]byte,
) (took, spent time.Duration, err error) {
	began := time.Now()
	before, err := process.CPU(j.node.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	next, errs := make(chan []byte), make([]error, jsonInFlight)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for body := range next {
				if errs[i] == nil {
					errs[i] = j.do(ctx, http.MethodPost, "/v1/records", nil, body, readAway)
				}
			}
		})
	}
	for _, body := range bodies {
		next <- body
	}
	close(next)
	wg.Wait()
	after, cpuErr := process.CPU(j.node.cmd.Process.Pid)
	return time.Since(began), after - before, errors.Join(append(errs, cpuErr)...)
}

// read asks for all records some times and returns the least processor time of the node.
func (j *jsonAsker) read(
	ctx context.Context, accept, coding string, records int,
) (least time.Duration, err error) {
	header := http.Header{"Accept": {accept}}
	if coding != "" {
		header.Set("Accept-Encoding", coding)
	}
	for range jsonPasses {
		before, err := process.CPU(j.node.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		lines := 0
		err = j.do(ctx, http.MethodGet, "/v1/records?view=all", header, nil,
			func(r io.Reader) (err error) {
				lines, err = countLines(r)
				return err
			})
		if err != nil {
			return 0, err
		}
		if coding == "" && lines != records && lines != records+1 { // CSV has a header
			return 0, fmt.Errorf("%s: %d lines of %d records", accept, lines, records)
		}
		after, err := process.CPU(j.node.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		if spent := max(after-before, time.Millisecond); least == 0 || spent < least {
			least = spent
		}
	}
	return least, nil
}

func countLines(r io.Reader) (lines int, err error) {
	buf := make([]byte, 1<<16)
	for err == nil {
		var n int
		n, err = r.Read(buf)
		lines += bytes.Count(buf[:n], []byte("\n"))
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return lines, err
}
