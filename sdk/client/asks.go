package client

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// asks is what a client says with each of its questions.
type asks struct {
	groups  string // numbers joined by commas
	after   string // acqs joined by commas
	partial bool
}

// OfGroups returns a client that asks the node for some of its groups of slots only, as nodes ask
// each other. It shares the connections of c.
func (c *Client) OfGroups(groups []int) *Client {
	out := *c
	numbers := make([]string, len(groups))
	for i, g := range groups {
		numbers[i] = strconv.Itoa(g)
	}
	out.asks.groups = strings.Join(numbers, ",")
	return &out
}

// After returns a client whose questions are answered when everything up to an acq is there, such
// as what a put through another node of a cluster stored, whose reply has its greatest. With
// several acqs there must be one for each of the groups that are asked for, in their order. It
// shares the connections of c.
func (c *Client) After(acqNs ...int64) *Client {
	out := *c
	texts := make([]string, len(acqNs))
	for i, ns := range acqNs {
		texts[i] = strconv.FormatInt(ns, 10)
	}
	out.asks.after = strings.Join(texts, ",")
	return &out
}

// AllowPartial returns a client whose questions may be answered without the parts of a cluster that
// cannot be asked. The end of an answer then says that it is not complete and why; iterators,
// which have none, yield that as an error. It shares the connections of c.
func (c *Client) AllowPartial() *Client {
	out := *c
	out.asks.partial = true
	return &out
}

// add adds what is asked for to a path. A node that asks for groups also says how long it waits,
// so that nothing goes on for longer.
func (a *asks) add(ctx context.Context, path string) string {
	var more []string
	if a.partial {
		more = append(more, "partial=allow")
	}
	if a.after != "" {
		more = append(more, "after="+a.after)
	}
	if a.groups != "" {
		more = append(more, "groups="+a.groups)
		if until, ok := ctx.Deadline(); ok {
			ms := max(1, time.Until(until).Milliseconds())
			more = append(more, "within_ms="+strconv.FormatInt(ms, 10))
		}
	}
	if len(more) == 0 {
		return path
	}
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	return path + sep + strings.Join(more, "&")
}
