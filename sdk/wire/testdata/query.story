# A client asks, and is answered with frames of rows and an end.

# All records of tenant 7, the latest version of each reading. The header is made by "frame".
frame query
01 00 00 00                           # view 1: latest; no order, no flags, no filters
00 00 00 00 00 00 00 00               # no as-of acq, which only view 2 has
00 00 00 00 00 00 00 00               # no limit
00 00 00 00 00 00 00 00               # no buckets
01 00 00 00                           # cid: one range
07 00 00 00 00 00 00 00  08 00 00 00 00 00 00 00  # from 7, and 8 is not in it
00 00 00 00  00 00 00 00              # mid, moid: all
00 00 00 00  00 00 00 00              # cap, acq: all
00 00 00 00  00 00 00 00              # no aggregate
----
header 50 01 03 00 48 00 00 00 b2 98 b4 a5
query: view 1, order 0, limit 0
  cid: [7, 8)
  moid: [-2147483632, 2147483647)

# One record, in the form that packs least: 64 bits above a base of 0.
frame rows
01 00 00 00  01 02 00 00  04 00 00 00 # 1 row, flag 1: with acq; 4 bytes of payload each
00 40  00 00 00 00 00 00 00 00  07 00 00 00 00 00 00 00  # cid 7
00 40  00 00 00 00 00 00 00 00  e9 03 00 00 00 00 00 00  # mid 1001
00 40  00 00 00 00 00 00 00 00  fd ff ff ff ff ff ff ff  # moid -3
00 40  00 00 00 00 00 00 00 00  00 00 2a 36 fe 9c 97 17  # cap
00 40  00 00 00 00 00 00 00 00  00 58 71 2e 0c 9d 97 17  # acq
32 31 2e 35
----
header 50 01 04 00 6a 00 00 00 d6 83 8b 81
rows: 1
  7/1001/-3 2023-11-14T22:13:20Z = "21.5", acq 2023-11-14T22:14:20Z

# The end says that the answer is whole, and up to which acq: below the horizon nothing is missing.
# An answer without an end is not whole, however the connection ended.
frame end
01 00 00 00 00 00 00 00               # complete
00 e8 a0 7e 15 9d 97 17               # horizon
01 00 00 00 00 00 00 00               # 1 row
01 00 00 00 00 00 00 00  00 20 00 00 00 00 00 00  # 1 block opened, 8192 rows looked at
68 3c 01 00 00 00 00 00               # it took 81 us
00 00 00 00 00 00 00 00               # nothing was purged
00 00 00 00                           # no reason
----
header 50 01 06 00 3c 00 00 00 b1 e5 1d fb
end: complete true, 1 rows, horizon 2023-11-14T22:15:00Z

# In a cluster a client may take what is there now. The end then says what is missing.
frame end
00 00 00 00 00 00 00 00
00 e8 a0 7e 15 9d 97 17
00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
68 3c 01 00 00 00 00 00
00 00 00 00 00 00 00 00
0c 00 00 00  67 72 6f 75 70 20 33 20 64 6f 77 6e  # 12 bytes of text
----
header 50 01 06 00 48 00 00 00 b9 5d da c3
end: complete false, 0 rows, horizon 2023-11-14T22:15:00Z, because group 3 down

# An aggregate is answered with groups: here of device 1001, in the quarter of an hour from there on.
read
50 01 05 00  2a 00 00 00  16 ad 4a 2a
01 00 00 00                           # one group
00 00 00 00  e9 03 00 00 00 00 00 00  00 00 00 00  # not by cid, mid 1001, not by moid
00 c0 72 f2 43 9c 97 17               # from this cap on
02 00 00 00 00 00 00 00               # 2 records
02 00 00 00  6f 6b                    # the plugin's result
----
groups: 1
  0/1001/0 from 2023-11-14T22:00:00Z: 2 records, result 6f6b
