# A node is taken out of the cluster for good.

create 2
----
nodes: 1 (a, up)
group 0: 1*
group 1: 1*
group 2: 1*

join 2 b
----

join 3 c
----

join 4 d
----

run
----
done after 11 steps
nodes: 1 (a, up) 2 (b, up) 3 (c, up) 4 (d, up)
group 0: 1 3* 4
group 1: 1* 2 3
group 2: 2* 3 4

# Each of its copies moves: another node learns the group's records, and the copy that leads hands
# the leadership over before it goes.
set 1 draining
----

step
----
now: StartPlan group 0 to node 2: node 1 is draining
now: StartPlan group 1 to node 4: node 1 is draining

step
----
now: SwapPlan group 0: the new copy on node 2 has caught up
now: node 1 hands the leadership of group 1 to node 2: the copy on node 1 is removed

# Until the node has left, a drain can be taken back. What has begun is finished.
set 1 up
----

run
----
done after 6 steps
nodes: 1 (a, up) 2 (b, up) 3 (c, up) 4 (d, up)
group 0: 2 3 4*
group 1: 1 2* 4
group 2: 1 3* 4

set 1 draining
----

run
----
done after 4 steps
nodes: 1 (a, left) 2 (b, up) 3 (c, up) 4 (d, up)
group 0: 2 3 4*
group 1: 2* 3 4
group 2: 2 3* 4

# It holds nothing and has left. It cannot come back with the same directory.
set 1 up
----
error: not allowed: node 1 cannot become up: it is left

# Three copies need three nodes, so none of those that are left can be drained.
set 2 draining
----
error: not allowed: without node 2, 2 nodes are up for 3 copies of everything; join another first, or accept fewer copies
