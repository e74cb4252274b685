package cluster

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/story"
)

var update = flag.Bool("update", false, "write what the stories in testdata come to")

// TestStories runs testdata/*.story: what the planner does as nodes come and go. Groups do at once
// what a plan says, as long as most of their voters run.
func TestStories(t *testing.T) {
	story.Run(t, "testdata", *update, func(t *testing.T) func(*story.Step) string {
		return (&told{t: t}).do
	})
}

// told is a cluster that a story is about. Of its sim only what is not random is used.
type told struct {
	t *testing.T
	*sim
}

// do does one step and says what came of it.
func (o *told) do(s *story.Step) string {
	verbs := map[string]func(*story.Step) string{"create": o.create, "join": o.join,
		"set": o.set, "down": o.goesDown, "back": o.back, "plan": o.plan, "step": o.step,
		"run": o.run, "show": o.show}
	verb := verbs[s.Verb]
	if verb == nil {
		o.t.Fatalf("%s is not a verb of stories about a cluster", s.Verb)
	}
	return verb(s)
}

func (o *told) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

// create makes a cluster of node 1, with data groups that should have three copies.
func (o *told) create(s *story.Step) string {
	o.sim = newSim(o.t, nil, o.number(s.Args[0]))
	return o.show(s)
}

// apply applies a command and says why it was refused.
func (o *told) apply(cmd Command) string {
	if r := apply(o.t, o.state, cmd); r.Err != nil {
		return short("error: " + r.Err.Error())
	}
	return ""
}

// join adds the node with a number in a zone.
func (o *told) join(s *story.Step) string {
	return o.apply(&PutNode{testNode(o.number(s.Args[0]), s.Args[1])})
}

// set gives a node a state: draining, removing or up.
func (o *told) set(s *story.Step) string {
	for state, text := range nodeStates() {
		if text == s.Args[1] {
			return o.apply(&SetNodeState{Node: NodeID(o.number(s.Args[0])), State: state})
		}
	}
	o.t.Fatalf("%s is not a state of a node", s.Args[1])
	return ""
}

// goesDown says for how long a node has not answered.
func (o *told) goesDown(s *story.Step) string {
	lasted, err := time.ParseDuration(s.Args[1])
	if err != nil {
		o.t.Fatal(err)
	}
	o.silent[NodeID(o.number(s.Args[0]))] = lasted
	o.elect()
	return ""
}

func (o *told) back(s *story.Step) string {
	delete(o.silent, NodeID(o.number(s.Args[0])))
	o.elect()
	return ""
}

func (o *told) look() Outlook { return NextMoves(o.state.View(), o.health(), PlanOptions{}) }

// plan says what the planner would do now, what is left to begin, and what is blocked.
func (o *told) plan(*story.Step) string {
	look := o.look()
	out := ""
	for _, m := range look.Moves {
		out += "now: " + moveText(m) + "\n"
	}
	for _, c := range look.Changes {
		if c.Waits != "" {
			out += fmt.Sprintf("waits: group %d: %s: %s\n", c.Group, c.Why, c.Waits)
		}
	}
	for _, b := range look.Blocked {
		out += "blocked: " + b + "\n"
	}
	if out == "" {
		return "nothing to do"
	}
	return short(out)
}

// step does what the planner says now, and lets the groups do their part.
func (o *told) step(s *story.Step) string {
	out := o.plan(s)
	for _, m := range o.look().Moves {
		if m.Command == nil {
			o.lead(m)
		} else {
			apply(o.t, o.state, m.Command)
		}
	}
	o.obey()
	return out
}

// run goes on until nothing is left to do.
func (o *told) run(s *story.Step) string {
	for rounds := range 200 {
		if look := o.look(); len(look.Moves)+len(look.Running) == 0 {
			return fmt.Sprintf("done after %d steps\n", rounds) + o.show(s)
		}
		o.step(s)
	}
	o.t.Fatal("no end")
	return ""
}

// show says who holds each group; the leader has a star.
func (o *told) show(*story.Step) string {
	out := "nodes:"
	for _, n := range o.state.View().Nodes {
		state := n.State.String()
		if o.down(n.ID) {
			state += ", down"
		}
		out += fmt.Sprintf(" %d (%s, %s)", n.ID, n.Zone, state)
	}
	for i, g := range o.groups {
		out += fmt.Sprintf("\ngroup %d:", i)
		for _, id := range slices.Sorted(maps.Values(g.voters)) {
			out += fmt.Sprint(" ", uint64(id))
			if id == g.leader {
				out += "*"
			}
		}
	}
	return out
}

// obey has all groups do what their plans say.
func (o *told) obey() {
	for i, g := range o.groups {
		plan := o.state.plans[o.state.busy[GroupID(i)]]
		if !o.quorum(g.voters, 0) {
			continue
		}
		switch {
		case plan.Stage == StageAdd && !o.down(plan.Add):
			g.learners[plan.Learn], g.caughtUp[plan.Learn] = plan.Add, true
		case plan.Stage == StageSwap && o.quorum(g.after(plan), 0):
			g.voters = g.after(plan)
			delete(g.learners, plan.Learn)
			delete(g.caughtUp, plan.Learn)
		}
	}
	o.elect()
}

// elect has groups whose leader is gone choose the voter with the least number that runs.
func (o *told) elect() {
	for _, g := range o.groups {
		nodes := slices.Sorted(maps.Values(g.voters))
		switch {
		case !o.quorum(g.voters, 0):
			g.leader = 0
		case !slices.Contains(nodes, g.leader) || o.down(g.leader):
			g.leader = nodes[slices.IndexFunc(nodes, func(n NodeID) bool { return !o.down(n) })]
		}
	}
}

func moveText(m Move) string {
	if m.Command == nil {
		return fmt.Sprintf("node %v hands the leadership of group %d to node %v: %s", m.Leader,
			m.Group, m.Transfer, m.Why)
	}
	text := fmt.Sprintf("%T", m.Command)[len("*cluster."):]
	if m.Group != 0 || text != "SetNodeState" {
		text += fmt.Sprintf(" group %d", m.Group)
	}
	if start, ok := m.Command.(*StartPlan); ok && start.Add != 0 {
		text += fmt.Sprintf(" to node %v", start.Add)
	}
	return text + ": " + m.Why
}

// short leaves the zeros of node ids out.
func short(text string) string {
	return regexp.MustCompile(`\b0{10,}`).ReplaceAllString(text, "")
}
