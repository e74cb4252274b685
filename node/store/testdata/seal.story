# Where records are: in the head and the log first, then in segments.

clock 10:00:00
----

put
1/1/1 09:00:00 = a
1/1/1 09:15:00 = b
1/2/1 09:00:00 = c
----
3 stored, acq 10:00:00 to 10:00:00+2

# Open reads the log of what was not sealed.
reopen
----
3 records read from the log; 3 records in the head, 0 in 0 segments

# A seal writes the head to a segment, which is never changed afterwards.
seal
----

where
----
0 records in the head, 3 in 1 segments

# After a seal there is nothing in the log that must be read.
reopen
----
0 records read from the log; 0 records in the head, 3 in 1 segments

# A correction of a sealed reading is in the head, its first version in the segment.
clock 10:10:00
----

put
1/1/1 09:00:00 = A
----
1 stored, acq 10:10:00

where
----
1 records in the head, 3 in 1 segments

show latest
----
1/1/1 09:00:00 = A        acq 10:10:00
1/1/1 09:15:00 = b        acq 10:00:00+1
1/2/1 09:00:00 = c        acq 10:00:00+2

# Answers are the same wherever records are.
seal
----

where
----
0 records in the head, 4 in 2 segments

show latest
----
1/1/1 09:00:00 = A        acq 10:10:00
1/1/1 09:15:00 = b        acq 10:00:00+1
1/2/1 09:00:00 = c        acq 10:00:00+2

# Four segments of about one size are merged to one, in the background; settle waits for that.
put
1/3/1 09:00:00 = d
1/3/1 09:15:00 = d
1/3/1 09:30:00 = d
----
3 stored, acq 10:10:00+1 to 10:10:00+3

seal
----

put
1/4/1 09:00:00 = e
1/4/1 09:15:00 = e
1/4/1 09:30:00 = e
----
3 stored, acq 10:10:00+4 to 10:10:00+6

seal
----

settle
----
0 records in the head, 10 in 1 segments

show all
----
1/1/1 09:00:00 = A        acq 10:10:00
1/1/1 09:00:00 = a        acq 10:00:00
1/1/1 09:15:00 = b        acq 10:00:00+1
1/2/1 09:00:00 = c        acq 10:00:00+2
1/3/1 09:00:00 = d        acq 10:10:00+1
1/3/1 09:15:00 = d        acq 10:10:00+2
1/3/1 09:30:00 = d        acq 10:10:00+3
1/4/1 09:00:00 = e        acq 10:10:00+4
1/4/1 09:15:00 = e        acq 10:10:00+5
1/4/1 09:30:00 = e        acq 10:10:00+6
