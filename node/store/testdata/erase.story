# An erase hides all records of a box that are there when it comes; a purge removes them.

clock 10:00:00
----

put
1/7/1 09:00:00 = a
1/7/1 09:15:00 = b
1/7/1 09:30:00 = c
1/8/1 09:15:00 = d
----
4 stored, acq 10:00:00 to 10:00:00+3

clock 10:10:00
----

# The box is a part of one device; the end of a range is not in it.
erase device=7 cap=09:00:00..09:30:00
----
erased, acq 10:10:00

show latest
----
1/7/1 09:30:00 = c        acq 10:00:00+2
1/8/1 09:15:00 = d        acq 10:00:00+3

# An erase is an event with an acq of its own: as of an earlier time, all are there.
show as-of 10:05:00
----
1/7/1 09:00:00 = a        acq 10:00:00
1/7/1 09:15:00 = b        acq 10:00:00+1
1/7/1 09:30:00 = c        acq 10:00:00+2
1/8/1 09:15:00 = d        acq 10:00:00+3

# What is put after the erase is not hidden by it.
clock 10:20:00
----

put
1/7/1 09:15:00 = B
----
1 stored, acq 10:20:00

show latest device=7
----
1/7/1 09:15:00 = B        acq 10:20:00
1/7/1 09:30:00 = c        acq 10:00:00+2

versions device=7 cap=09:15:00
----
1/7/1 09:15:00 = b        acq 10:00:00+1  erased at 10:10:00
1/7/1 09:15:00 = B        acq 10:20:00  latest

# An erase deletes for a diff, as tombstones do.
diff 10:05:00 10:15:00
----
1/7/1 09:00:00: a was deleted, acq 10:10:00
1/7/1 09:15:00: b was deleted, acq 10:10:00

diff 10:15:00 10:25:00
----
1/7/1 09:15:00: added B, acq 10:20:00

# A purge removes the bytes as well: no view has the records any more.
clock 10:30:00
----

purge device=7 acq=00:00:00..10:05:00
----
purged, acq 10:30:00

settle
----
0 records in the head, 2 in 1 segments

show as-of 10:05:00
----
1/8/1 09:15:00 = d        acq 10:00:00+3

show latest
----
1/7/1 09:15:00 = B        acq 10:20:00
1/8/1 09:15:00 = d        acq 10:00:00+3

events
----
erase at 10:10:00: device=7..8 cap=09:00:00..09:30:00
purge at 10:30:00: device=7..8 acq=00:00:00..10:05:00

# Events are kept over a restart.
reopen
----
0 records read from the log; 0 records in the head, 2 in 1 segments

show all
----
1/7/1 09:15:00 = B        acq 10:20:00
1/8/1 09:15:00 = d        acq 10:00:00+3

events
----
erase at 10:10:00: device=7..8 cap=09:00:00..09:30:00
purge at 10:30:00: device=7..8 acq=00:00:00..10:05:00
