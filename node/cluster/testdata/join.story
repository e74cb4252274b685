# Nodes join a cluster, and its groups are placed.
#
# Group 0 keeps the state of the cluster, the others own the records. Each should have three copies
# on nodes of different zones. "show" lists the nodes that hold a copy; the one with a star leads.

create 2
----
nodes: 1 (a, up)
group 0: 1*
group 1: 1*
group 2: 1*

# With one node there is one copy of everything, and nothing that could be done about it.
plan
----
nothing to do

# A node that gossip reaches is let in. "plan" says what the leader of group 0 would do now.
join 2 b
----

plan
----
now: SetNodeState: node 2 has joined

# "step" does it. Each group gets a copy on the new node, which first learns what it lacks.
step
----
now: SetNodeState: node 2 has joined

step
----
now: StartPlan group 0 to node 2: it has 1 copies of 3
now: StartPlan group 1 to node 2: it has 1 copies of 3
waits: group 2: it has 1 copies of 3: node 2 takes in 2 copies at a time

# The learner has caught up, so it becomes a voter.
step
----
now: SwapPlan group 0: the new copy on node 2 has caught up
now: SwapPlan group 1: the new copy on node 2 has caught up
waits: group 2: it has 1 copies of 3: node 2 takes in 2 copies at a time

run
----
done after 3 steps
nodes: 1 (a, up) 2 (b, up)
group 0: 1 2*
group 1: 1* 2
group 2: 1* 2

# With the third node there are as many copies as there should be.
join 3 c
----

run
----
done after 6 steps
nodes: 1 (a, up) 2 (b, up) 3 (c, up)
group 0: 1 2* 3
group 1: 1* 2 3
group 2: 1* 2 3

# A fourth node takes its share from the others, one copy of a group at a time, and no more than
# that moves.
join 4 d
----

step
----
now: SetNodeState: node 4 has joined

step
----
now: StartPlan group 0 to node 4: node 1 is fuller than others
now: StartPlan group 2 to node 4: node 2 is fuller than others

run
----
done after 3 steps
nodes: 1 (a, up) 2 (b, up) 3 (c, up) 4 (d, up)
group 0: 2* 3 4
group 1: 1 2 3*
group 2: 1* 3 4
