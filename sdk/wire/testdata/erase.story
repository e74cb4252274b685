# Records are erased, and a follower hears how far the changes that it got are complete.

read
50 01 08 00  3c 00 00 00  10 91 c5 be # box
00 00 00 00 00 00 00 00               # not everything, as a guard against an empty box
01 00 00 00  07 00 00 00 00 00 00 00  08 00 00 00 00 00 00 00  # cid 7
01 00 00 00  e9 03 00 00 00 00 00 00  ea 03 00 00 00 00 00 00  # mid 1001
00 00 00 00  00 00 00 00  00 00 00 00
----
box: everything false
  cid: [7, 8)
  mid: [1001, 1002)
  moid: [-2147483632, 2147483647)

# The answer has the acq of the erase: what was put before it is hidden.
read
50 01 09 00  08 00 00 00  82 63 f8 44
00 e8 a0 7e 15 9d 97 17
----
event: acq 2023-11-14T22:15:00Z

# A box without ranges is the whole space but for reserved moids, which it must name. It is refused
# unless the first byte says that everything is meant.
frame box
00 00 00 00 00 00 00 00
00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00
----
header 50 01 08 00 1c 00 00 00 d3 f2 6b 11
box: error: box: empty range: it has no constraint; select everything explicitly

frame box
01 00 00 00 00 00 00 00
00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00
----
header 50 01 08 00 1c 00 00 00 e7 79 7e b3
box: everything true
  moid: [-2147483632, 2147483647)

# To a follower of changes: all with an acq below this was sent.
frame closed
00 e8 a0 7e 15 9d 97 17
----
header 50 01 0b 00 08 00 00 00 0e c9 f6 ec
closed: acq 2023-11-14T22:15:00Z
