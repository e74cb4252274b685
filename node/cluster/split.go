package cluster

import (
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/slots"
)

// SplitGroup parts the slots of a group: it keeps the lower half, and a new group with replicas on
// the same nodes gets the other. It is refused when the group is not at the epoch any more.
type SplitGroup struct {
	Group GroupID
	Epoch uint64 // of the group
}

// EndSplit says that a group which was split off has begun: it and its parent may move.
type EndSplit struct{ Group GroupID }

func (*SplitGroup) kind() uint8 { return commandSplitGroup }
func (*EndSplit) kind() uint8   { return commandEndSplit }

func (x *SplitGroup) fields(c *coder) {
	number(c, &x.Group)
	number(c, &x.Epoch)
}

func (x *EndSplit) fields(c *coder) { number(c, &x.Group) }

func (x *SplitGroup) check() error { return checkSplitOf(x.Group) }
func (x *EndSplit) check() error   { return checkSplitOf(x.Group) }

func checkSplitOf(group GroupID) error {
	if group == MetaGroup {
		return fmt.Errorf("group %d keeps the state of the cluster and has no slots to split",
			group)
	}
	return nil
}

func (x *SplitGroup) apply(s *State) Result {
	if s.feature < splitFeature {
		return refused("groups can be split from feature level %d on, the cluster is at %d",
			splitFeature, s.feature)
	}
	if int(x.Group) >= len(s.groups) {
		return unknown("group %d", x.Group)
	}
	g := s.groups[x.Group]
	span := spanOf(s.groups, x.Group)
	switch {
	case s.splitting(x.Group):
		return stale("group %d is being split", x.Group)
	case g.Epoch != x.Epoch || s.busy[x.Group] != 0:
		return stale("group %d is at epoch %d (plan %d), not at %d", x.Group, g.Epoch,
			s.busy[x.Group], x.Epoch)
	case len(s.groups) > MaxGroups:
		return refused("the cluster has %d groups, which is the most", MaxGroups)
	case span.To-span.From < 2:
		return refused("group %d has one slot, which cannot be split", x.Group)
	case s.nextReplica+ReplicaID(len(g.Replicas)) > maxReplicaID:
		return refused("the cluster has given out all numbers of replicas")
	}
	s.epoch++
	middle := span.From + (span.To-span.From)/2
	child := Group{Epoch: s.epoch, Slots: slots.Range{From: middle, To: span.To},
		Parent: x.Group, Splitting: true}
	for _, r := range g.Replicas {
		child.Replicas = append(child.Replicas, Replica{ID: s.nextReplica, Node: r.Node})
		s.nextReplica++
	}
	child.Born = s.nextReplica
	g.Epoch, g.Slots = s.epoch, slots.Range{From: span.From, To: middle}
	s.groups[x.Group] = g
	s.groups = append(s.groups, child)
	return Result{Changed: true}
}

func (x *EndSplit) apply(s *State) Result {
	if int(x.Group) >= len(s.groups) {
		return unknown("group %d", x.Group)
	}
	g := s.groups[x.Group]
	if !g.Splitting {
		return Result{}
	}
	s.epoch++
	g.Splitting = false
	s.groups[x.Group] = g
	return Result{Changed: true}
}

// splitting reports whether a group is parting from another one.
func (s *State) splitting(group GroupID) bool { return splitting(s.groups, group) }

func splitting(groups []Group, group GroupID) bool {
	return groups[group].Splitting || slices.ContainsFunc(groups, func(g Group) bool {
		return g.Splitting && g.Parent == group
	})
}

// Splitting reports whether a group is parting from another one.
func (v *View) Splitting(group GroupID) bool { return splitting(v.Groups, group) }

// even is the number of groups that the cluster began with.
func (s *State) even() uint32 { return evenOf(s.groups) }

func evenOf(groups []Group) (n uint32) {
	for g := range groups {
		n += uint32(count(g != MetaGroup && groups[g].Parent == 0))
	}
	return n
}

// spanOf returns the slots of a data group.
func spanOf(groups []Group, group GroupID) slots.Range {
	if r := groups[group].Slots; r.To > 0 {
		return r
	}
	return slots.GroupSpan(group, int(evenOf(groups)))
}

// owners maps slots to groups; nil where there are no groups yet.
func (s *State) owners() *slots.Map {
	if len(s.groups) == 0 {
		return nil
	}
	even := int(s.even())
	ranges := make([]slots.Range, len(s.groups)-1)
	for i, g := range s.groups[1:] {
		if ranges[i] = g.Slots; g.Slots.To == 0 {
			ranges[i] = slots.GroupSpan(GroupID(i+1), even)
		}
	}
	m, _ := slots.NewMap(ranges)
	return m
}

// splitFields are those of a group that splits made.
func (g *Group) splitFields(c *coder) {
	number(c, &g.Slots.From)
	number(c, &g.Slots.To)
	number(c, &g.Parent)
	number(c, &g.Born)
	c.flag(&g.Splitting)
}

// checkSplits refuses groups that splits cannot have made of those that there were.
func (s *State) checkSplits() error {
	even := s.even()
	for g, x := range s.groups {
		split := x.Slots.To > 0
		switch {
		case uint32(g) <= even && x.Parent == 0 && x.Born == 0 && !x.Splitting:
		case uint32(g) > even && x.Parent > 0 && int(x.Parent) < g && split &&
			x.Born <= s.nextReplica:
		default:
			return fmt.Errorf("group %d cannot be split off group %d", g, x.Parent)
		}
		if x.Slots.From > x.Slots.To || x.Slots.To > slots.Count || g == MetaGroup && split {
			return fmt.Errorf("group %d owns slots %v", g, x.Slots)
		}
	}
	if s.owners() == nil {
		return fmt.Errorf("the slots of %d groups overlap or do not cover all", len(s.groups)-1)
	}
	return nil
}
