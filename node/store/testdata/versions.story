# A reading is stored, corrected, deleted and asked for.
#
# A record is written TENANT/DEVICE/QUANTITY TIME = PAYLOAD, where the time is that of the reading
# (cap). The store gives each record an acq, the time at which it came. Here the clock stands still
# unless a step sets it, so the second record of a put has an acq one nanosecond above the first.

clock 10:00:00
----

put
1/7/1 09:45:00 = 21.5
1/8/1 09:45:00 = 19.0
----
2 stored, acq 10:00:00 to 10:00:00+1

# A moment later the first reading is corrected: another record with the same key. Nothing is ever
# changed in place.
clock 10:10:00
----

put
1/7/1 09:45:00 = 21.7
----
1 stored, acq 10:10:00

show all
----
1/7/1 09:45:00 = 21.5     acq 10:00:00
1/7/1 09:45:00 = 21.7     acq 10:10:00
1/8/1 09:45:00 = 19.0     acq 10:00:00+1

# The latest view has one version of each reading, that with the highest acq.
show latest
----
1/7/1 09:45:00 = 21.7     acq 10:10:00
1/8/1 09:45:00 = 19.0     acq 10:00:00+1

# As of an acq, what came later is not there.
show as-of 10:05:00
----
1/7/1 09:45:00 = 21.5     acq 10:00:00
1/8/1 09:45:00 = 19.0     acq 10:00:00+1

# A tombstone deletes a reading. It is a record, too.
clock 10:20:00
----

put
1/8/1 09:45:00 = deleted
----
1 stored, acq 10:20:00

show latest
----
1/7/1 09:45:00 = 21.7     acq 10:10:00

# Older states stay as they were.
show as-of 10:15:00
----
1/7/1 09:45:00 = 21.7     acq 10:10:00
1/8/1 09:45:00 = 19.0     acq 10:00:00+1

versions device=8
----
1/8/1 09:45:00 = 19.0     acq 10:00:00+1
1/8/1 09:45:00 = deleted  acq 10:20:00  latest

# A reading that is put again after its tombstone is there again.
clock 10:30:00
----

put
1/8/1 09:45:00 = 19.2
----
1 stored, acq 10:30:00

show latest
----
1/7/1 09:45:00 = 21.7     acq 10:10:00
1/8/1 09:45:00 = 19.2     acq 10:30:00

# What became of the readings between two moments. The first diff knows nothing of the tombstone:
# the reading was there at both.
diff 10:05:00 10:40:00
----
1/7/1 09:45:00: 21.5 became 21.7, acq 10:10:00
1/8/1 09:45:00: 19.0 became 19.2, acq 10:30:00

diff 10:15:00 10:25:00
----
1/8/1 09:45:00: 19.0 was deleted, acq 10:20:00
