package client

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// asks is what a client says with each of its queries.
type asks struct {
	groups  string // numbers joined by commas
	group   int    // that alone is asked, wherever it is; 0: all
	after   string // acqs joined by commas
	partial bool
	linear  bool
	fresh   bool
	feed    uint64 // the number of a feed; 0: none
}

// OfGroups returns a client that asks the node for some of its groups only, by their numbers from 1
// on, as nodes ask each other. It shares the connections of c.
func (c *Client) OfGroups(groups []int) *Client {
	out := *c
	numbers := make([]string, len(groups))
	for i, g := range groups {
		numbers[i] = strconv.Itoa(g)
	}
	out.asks.groups = strings.Join(numbers, ",")
	return &out
}

// OfGroup returns a client that asks a cluster for one of its groups only, by the number that
// [Client.ClusterGroups] shows, wherever its replicas are, and that copies into this one. Puts go
// where their devices belong. It shares the connections of c.
func (c *Client) OfGroup(number int) *Client {
	out := *c
	out.asks.group = number
	return &out
}

// OfParts is OfGroups where groups may have been split: each is a number, or of one that was split
// NUMBER:FROM-TO with the slots that it is taken to hold, for which alone it answers.
func (c *Client) OfParts(parts []string) *Client {
	out := *c
	out.asks.groups = strings.Join(parts, ",")
	return &out
}

// OfFeed returns a client whose feeds a node knows by a number, as nodes ask each other: who merges
// one with others may tell it to come further soon. It shares the connections of c.
func (c *Client) OfFeed(number uint64) *Client {
	out := *c
	out.asks.feed = number
	return &out
}

// After returns a client whose queries are answered when everything up to an acq is there, such
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

// AllowPartial returns a client whose queries may be answered without the parts of a cluster that
// cannot be asked. The end of an answer then says that it is not complete and why; iterators,
// which have none, yield that as an error. It shares the connections of c.
func (c *Client) AllowPartial() *Client {
	out := *c
	out.asks.partial = true
	return &out
}

// Linearizable returns a client whose queries see everything that any node of a cluster had
// acknowledged before they were asked, which takes a word of a majority of each group's nodes. A
// node by itself always answers so. It shares the connections of c.
func (c *Client) Linearizable() *Client {
	out := *c
	out.asks.linear = true
	return &out
}

// Fresh returns a client whose aggregates read all rows of their boxes, where nodes may otherwise
// take states of blocks that they kept. The answers are the same. It shares the connections of c.
func (c *Client) Fresh() *Client {
	out := *c
	out.asks.fresh = true
	return &out
}

// add adds what is asked for to a path. A node that asks for groups also says how long it waits,
// so that nothing goes on for longer; who takes an answer in part, so that it comes in time.
func (a *asks) add(ctx context.Context, path string) string {
	var more []string
	if a.partial {
		more = append(more, "partial=allow")
	}
	if a.linear {
		more = append(more, "read=linearizable")
	}
	if a.fresh {
		more = append(more, "fresh=1")
	}
	if a.after != "" {
		more = append(more, "after="+a.after)
	}
	if a.group != 0 {
		more = append(more, "of_group="+strconv.Itoa(a.group))
	}
	if a.groups != "" {
		more = append(more, "groups="+a.groups)
	}
	if a.groups != "" || a.partial {
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
