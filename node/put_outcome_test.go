package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// putAnswer is what the JSON route says of a put.
type putAnswer struct {
	Written   int         `json:"written"`
	Duplicate bool        `json:"duplicate"`
	Detail    string      `json:"detail"`
	Put       api.Outcome `json:"put"`
}

// postLines posts a body of JSON lines, with an Idempotency-Key unless that is empty.
func postLines(t *testing.T, n *Node, body, key string) (status int, out putAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+n.Addr().String()+"/v1/records?type=i64", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err, string(text))
	}
	return resp.StatusCode, out
}

// devices are JSON lines, one for each of some devices of many groups.
func devices(count int) string {
	var lines strings.Builder
	for i := range count {
		fmt.Fprintf(&lines, `{"cid":1,"mid":%d,"moid":1,"cap":1,"value":%d}`+"\n", i<<8, i)
	}
	return lines.String()
}

func TestPutsWithAKeyAreStoredOnce(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	n := openTest(t, Options{})
	rows := func(want uint64) {
		t.Helper()
		if got, _, err := n.Count(t.Context(), &record.Query{}); got != want || err != nil {
			t.Errorf("%d records, want %d, %v", got, want, err)
		}
	}
	put := func(key string, duplicate bool) {
		t.Helper()
		status, out := postLines(t, n, devices(10), key)
		if status != 200 || out.Written != 10 || out.Duplicate != duplicate {
			t.Errorf("key %q: status %d, %+v", key, status, out)
		}
	}
	put("order 7", false)
	put("order 7", true)
	rows(10)
	put("meter-reader/41", false)
	put("meter-reader/42", false)
	put("meter-reader/41", true)
	rows(30)
	put("", false)
	put("", false)
	rows(50)
	for _, count := range []int{9, 11} { // of a body that was corrected, say
		status, out := postLines(t, n, devices(count), "order 7")
		if status != 422 || !strings.Contains(out.Detail, `key "order 7" was used before`) {
			t.Errorf("%d records under a key of 10: status %d, %+v", count, status, out)
		}
	}
	rows(50)
	for i := range 70 {
		postLines(t, n, devices(1), fmt.Sprintf("old/%d", i))
	}
	status, out := postLines(t, n, devices(1), "old/0")
	if status != 409 || out.Put.Unknown != "1" || out.Put.NotStored != "" {
		t.Errorf("a stored record, under a key that is too old: status %d, %+v", status, out)
	}
	if status, _ := postLines(t, n, devices(1), strings.Repeat("x", 257)); status != 400 {
		t.Errorf("a key that is too long: status %d", status)
	}
}

// TestAKeyIsOfItsBody: another body of equal size is refused under a key, after a restart, too, and
// the same one is not, even if its records were erased since.
func TestAKeyIsOfItsBody(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	f := func(key, body string, want int, duplicate bool) {
		t.Helper()
		status, out := postLines(t, n, body, key)
		if status != want || out.Duplicate != duplicate {
			t.Errorf("key %q: status %d, want %d: %+v", key, status, want, out)
		}
		if want == 422 && out.Detail != fmt.Sprintf("the key %q was used before, for another "+
			"body; nothing of this one is stored; use a new key for each body", key) {
			t.Error(out.Detail)
		}
	}
	body := devices(10)
	lines := strings.SplitAfter(strings.TrimSuffix(body, "\n"), "\n")
	slices.Reverse(lines)
	others := []string{strings.Replace(body, `"value":3`, `"value":4`, 1),
		strings.Replace(body, `"cap":1`, `"cap":2`, 1), strings.Repeat(lines[0], 10),
		strings.Replace(body, `"value":3`, `"deleted":true`, 1)}
	for _, key := range []string{"upload", "meter/1"} {
		f(key, body, 200, false)
	}
	for range 2 {
		for _, key := range []string{"upload", "meter/1"} {
			f(key, body, 200, true)
			f(key, strings.Join(lines, "\n"), 200, true)
			for _, other := range others {
				f(key, other, 422, false)
			}
		}
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		n = openTest(t, Options{Dir: dir})
	}
	box := record.Box{record.MID: {record.At(3 << 8)}}
	if _, err := n.Erase(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	f("upload", body, 200, true)
	f("upload", others[1], 422, false)
}

// TestAPutThatIsCut: a body whose connection ends between two chunks stores nothing, and leaves its
// key to the whole one.
func TestAPutThatIsCut(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	n := openTest(t, Options{})
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	part := devices(2)
	if _, err := fmt.Fprintf(c, "POST /v1/records?type=i64 HTTP/1.1\r\nHost: localhost\r\n"+
		"Idempotency-Key: upload\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		len(part), part); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 400 ") {
		t.Errorf("two of three records: %s, %v", said, err)
	}
	if got, _, err := n.Count(t.Context(), &record.Query{}); got != 0 || err != nil {
		t.Errorf("%d records of a body that was cut, %v", got, err)
	}
	if status, out := postLines(t, n, devices(3), "upload"); status != 200 || out.Written != 3 {
		t.Errorf("the whole body with the same key: status %d, %+v", status, out)
	}
}

// TestAPutOfSomeGroups: where half of the groups have no majority, the answer says of each record
// whether it is stored, and sent again with the key of the answer each is stored once.
func TestAPutOfSomeGroups(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	c := openTogether(t, 5, 8)
	const rows = 32
	first, second := c.mostTogether()
	c.stop(first)
	c.stop(second)
	var said putAnswer
	// A group whose leader was stopped has no other at once, so the first answer may be that
	// nothing is stored: the same put is sent again until something is.
	c.until("a put is stored in some groups", func() bool {
		status, out := postLines(t, c.nodes[0], devices(rows), said.Put.Key)
		if status != http.StatusServiceUnavailable && status != http.StatusOK {
			return false
		}
		said = out
		return said.Put.Key == "" || said.Put.Stored != ""
	})
	if said.Put.Key == "" {
		t.Fatalf("without nodes %d and %d: %+v", first, second, said)
	}
	stored := c.linesThere()
	eachLine(t, said.Put.Stored, func(line int) {
		if stored[line] != 1 {
			t.Errorf("line %d is stored, says the answer, and is there %d times", line,
				stored[line])
		}
	})
	eachLine(t, said.Put.NotStored, func(line int) {
		if stored[line] != 0 {
			t.Errorf("line %d is not stored, says the answer, and is there", line)
		}
	})
	for _, i := range []int{first, second} {
		c.nodes[i] = openTest(t, c.options[i])
	}
	c.until("the same put is answered", func() bool {
		status, out := postLines(t, c.nodes[second], devices(rows), said.Put.Key)
		return status == http.StatusOK && out.Written == rows
	})
	if count := c.countAll(); count != rows {
		t.Errorf("%d records after the put was sent again, want %d", count, rows)
	}
	c.until("all groups have their replicas again", func() bool { return c.settled(3) })
	c.keysOfBodies()
}

// answered sends a body until there is an answer for good: with its key it is stored once.
func (c *nodesTogether) answered(n *Node, body, key string) (status int, out putAnswer) {
	c.Helper()
	c.until("a put has an answer", func() bool {
		if status, out = postLines(c.T, n, body, key); status == http.StatusServiceUnavailable {
			c.Logf("%+v", out)
			return false
		}
		return true
	})
	return status, out
}

// keysOfBodies: groups refuse another body under a key that they know.
func (c *nodesTogether) keysOfBodies() {
	c.Helper()
	f := func(key, body string, want int, stored string) {
		c.Helper()
		status, out := c.answered(c.nodes[1], body, key)
		if status != want || out.Put.Stored != stored {
			c.Errorf("key %q: status %d, want %d: %+v", key, status, want, out)
		}
	}
	f("all", devices(32), 200, "")
	f("all", devices(32), 200, "")
	f("all", strings.ReplaceAll(devices(32), `"cap":1`, `"cap":2`), 422, "")
	f("one", devices(1), 200, "")
	f("one", devices(1)+strings.Replace(devices(1), `"cap":1`, `"cap":2`, 1), 422, "")
	c.keyOfOneGroup()
}

// keyOfOneGroup: groups that do not know a key store the records of another body, each once, and
// the answer says which.
func (c *nodesTogether) keyOfOneGroup() {
	c.Helper()
	if status, out := c.answered(c.nodes[1], devices(1), "some"); status != 200 {
		c.Errorf("status %d: %+v", status, out)
	}
	other := strings.ReplaceAll(devices(32), `"cap":1`, `"cap":3`)
	status, out := c.answered(c.nodes[1], other, "some")
	stored, refused := out.Put.Stored, out.Put.NotStored
	if status != 422 || out.Put.Stored == "" || !strings.HasPrefix(refused, "1") ||
		out.Put.Unknown != "" || !strings.Contains(out.Detail, "did not know the key, see put") {
		c.Fatalf("another body: status %d: %+v", status, out)
	}
	before := c.countAll()
	if status, out = c.answered(c.nodes[2], other, "some"); status != 422 ||
		out.Put.NotStored != refused {
		c.Errorf("another body, again: status %d, not stored %s, before %s", status,
			out.Put.NotStored, refused)
	}
	if status, out = c.answered(c.nodes[2], devices(1), "some"); status != 200 {
		c.Errorf("the first body again: status %d: %+v", status, out)
	}
	lines := strings.SplitAfter(devices(32), "\n")
	elsewhere := 0 // a line of a group that the first does not belong to
	eachLine(c.T, stored, func(line int) { elsewhere = line })
	for range 2 { // no group knows the key, then one does
		if status, out = c.answered(c.nodes[1], lines[0], "one group"); status != 200 {
			c.Errorf("a body of one group: status %d: %+v", status, out)
		}
		status, out = c.answered(c.nodes[2], lines[elsewhere-1], "one group")
		if status != 200 {
			c.Errorf("a body of another group: status %d: %+v", status, out)
		}
	}
	if after := c.countAll(); after != before+2 {
		c.Errorf("%d records, and %d with two more of two groups", before, after)
	}
}

// countAll returns how many records there are.
func (c *nodesTogether) countAll() (rows uint64) {
	c.Helper()
	c.until("all is counted", func() bool {
		var err error
		rows, _, err = dial(c.T, c.nodes[0]).Linearizable().Count(c.Context(), &record.Query{})
		return err == nil
	})
	return rows
}

// mostTogether returns two nodes, not the first, that have the most groups together: without them
// these groups have no majority.
func (c *nodesTogether) mostTogether() (first, second int) {
	c.Helper()
	v, most := c.nodes[0].member.Load().View(), 0
	for i := 1; i < len(c.nodes); i++ {
		for k := 1; k < i; k++ {
			together := 0
			for g := 1; g <= v.DataGroups(); g++ {
				have := 0
				for _, r := range v.Voters(cluster.GroupID(g)) {
					if r.Node == c.nodes[i].member.Load().Self() ||
						r.Node == c.nodes[k].member.Load().Self() {
						have++
					}
				}
				together += have / 2
			}
			if together > most {
				first, second, most = k, i, together
			}
		}
	}
	if most == 0 || most == v.DataGroups() {
		c.Fatalf("%d of %d groups lie on two nodes", most, v.DataGroups())
	}
	return first, second
}

// linesThere counts the records of the groups that answer, by line of devices.
func (c *nodesTogether) linesThere() map[int]int {
	c.Helper()
	out := map[int]int{}
	_, err := c.nodes[0].AllowPartial().Query(c.Context(), &record.Query{},
		func(b *record.Batch) error {
			for i := range b.Len() {
				out[int(b.MID[i]>>8)+1]++
			}
			return nil
		})
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// eachLine calls f with the numbers of ranges.
func eachLine(t *testing.T, ranges string, f func(line int)) {
	t.Helper()
	for part := range strings.SplitSeq(ranges, ",") {
		if part == "" {
			continue
		}
		first, last, several := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to, err2 := from, error(nil)
		if several {
			to, err2 = strconv.Atoi(last)
		}
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		for line := from; line <= to; line++ {
			f(line)
		}
	}
}
