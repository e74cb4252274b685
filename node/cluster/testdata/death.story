# A node dies.

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

# While a node is down for some minutes, others lead its groups, and nothing moves: most machines
# come back.
down 2 1m
----

plan
----
nothing to do

show
----
nodes: 1 (a, up) 2 (b, up, down) 3 (c, up) 4 (d, up)
group 0: 1 3* 4
group 1: 1* 2 3
group 2: 2 3* 4

back 2
----

plan
----
nothing to do

# After ten minutes its copies are made again on the other nodes.
down 2 11m
----

step
----
now: StartPlan group 1 to node 4: node 2 is dead for 11m0s
now: StartPlan group 2 to node 1: node 2 is dead for 11m0s

run
----
done after 2 steps
nodes: 1 (a, up) 2 (b, up, down) 3 (c, up) 4 (d, up)
group 0: 1 3* 4
group 1: 1* 3 4
group 2: 1 3* 4

# When it comes back it holds nothing, and gets its share like a new node.
back 2
----

run
----
done after 5 steps
nodes: 1 (a, up) 2 (b, up) 3 (c, up) 4 (d, up)
group 0: 1 3 4*
group 1: 2 3* 4
group 2: 1 2 4*
