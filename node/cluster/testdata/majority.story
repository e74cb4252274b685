# Two of three nodes are lost: the groups have no majority, and nothing is done to them.

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

run
----
done after 8 steps
nodes: 1 (a, up) 2 (b, up) 3 (c, up)
group 0: 1 2 3*
group 1: 1* 2 3
group 2: 1* 2 3

down 2 1h
----

# With one lost, nothing can be done either: there is no other node to take its copies.
plan
----
blocked: group 0: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 1: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 2: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another

down 3 1h
----

plan
----
blocked: group 0: its copy on node 3 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 0: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 1: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 1: its copy on node 3 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 2: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 2: its copy on node 3 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another

show
----
nodes: 1 (a, up) 2 (b, up, down) 3 (c, up, down)
group 0: 1 2 3
group 1: 1 2 3
group 2: 1 2 3

# One of them comes back, so the groups have leaders again.
back 3
----

step
----
now: node 1 hands the leadership of group 0 to node 3: node 1 leads more groups than its share
blocked: group 0: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 1: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 2: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another

run
----
done after 0 steps
nodes: 1 (a, up) 2 (b, up, down) 3 (c, up)
group 0: 1 2 3*
group 1: 1* 2 3
group 2: 1* 2 3

# A fourth node takes the place of the lost one.
join 4 d
----

step
----
now: SetNodeState: node 4 has joined
blocked: group 0: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 1: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another
blocked: group 2: its copy on node 2 is lost (dead for 1h0m0s), and no node can take its place; start the node again, or join another

run
----
done after 5 steps
nodes: 1 (a, up) 2 (b, up, down) 3 (c, up) 4 (d, up)
group 0: 1 3* 4
group 1: 1* 3 4
group 2: 1* 3 4
