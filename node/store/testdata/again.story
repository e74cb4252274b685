# A client that did not hear the answer to a put sends it again. A batch with a writer and a number
# is stored once.

clock 10:00:00
----

put as meter-gw 1
1/7/1 09:45:00 = 21.5
----
1 stored, acq 10:00:00

clock 10:01:00
----

# The answer is the first one, with the acq of that time.
put as meter-gw 1
1/7/1 09:45:00 = 21.5
----
1 stored, acq 10:00:00: the answer of the first time

put as meter-gw 2
1/7/1 10:00:00 = 21.6
----
1 stored, acq 10:01:00

# The store knows that after a restart, too.
reopen
----
2 records read from the log; 2 records in the head, 0 in 0 segments

put as meter-gw 1
1/7/1 09:45:00 = 21.5
----
1 stored, acq 10:00:00: the answer of the first time

# Another writer has numbers of its own.
put as other-gw 1
1/7/1 09:45:00 = 21.5
----
1 stored, acq 10:01:00+1

# A batch without a writer is stored as often as it is sent.
put
1/7/1 10:00:00 = 21.6
----
1 stored, acq 10:01:00+2

show all
----
1/7/1 09:45:00 = 21.5     acq 10:00:00
1/7/1 09:45:00 = 21.5     acq 10:01:00+1
1/7/1 10:00:00 = 21.6     acq 10:01:00
1/7/1 10:00:00 = 21.6     acq 10:01:00+2

# What cannot be stored is refused as a whole. The greatest number of a tenant is kept free.
put
1/7/1 10:15:00 = 1
2147483647/7/1 10:15:00 = 2
----
error: row 1: cid: reserved maximum: 2147483647 means "no end" and cannot be stored

show all cap=10:15:00
----
nothing
