# What a reader refuses, and what it says. Nothing is taken on the word of its sender.

# An answer that is right.
read
50 01 09 00  08 00 00 00  82 63 f8 44
00 e8 a0 7e 15 9d 97 17
----
event: acq 2023-11-14T22:15:00Z

# A bit of the payload was flipped on the way.
read
50 01 09 00  08 00 00 00  82 63 f8 44
00 e8 a0 7e 15 9d 97 16
----
error: bad-frame: checksum of a frame differs

# The connection ended too early: in the payload, and in the header.
read
50 01 09 00  08 00 00 00  82 63 f8 44
00 e8 a0 7e
----
error: bad-frame: frame of 8 bytes, 4 follow its header

read
50 01 09 00  08
----
error: bad-frame: 5 bytes end inside a frame header

# Something else than a node answered.
read
48 54 54 50  2f 31 2e 31  20 35 30 32 # "HTTP/1.1 502"
----
error: bad-frame: frame starts with 0x48, not 0x50: not the pentad protocol

# A version that does not exist yet, a type that does not exist, a byte that must be 0.
read
50 02 09 00  08 00 00 00  82 63 f8 44
00 e8 a0 7e 15 9d 97 17
----
error: unsupported-version: frame of version 2; this side speaks version 1

read
50 01 63 00  08 00 00 00  82 63 f8 44
00 e8 a0 7e 15 9d 97 17
----
error: bad-frame: frame of type 99; version 1 has types 1 to 31

read
50 01 09 01  08 00 00 00  82 63 f8 44
00 e8 a0 7e 15 9d 97 17
----
error: bad-frame: reserved byte 3 of a frame is 0x01, not 0

# A length of 4 GiB is refused before anything is allocated.
read
50 01 09 00  ff ff ff ff  82 63 f8 44
----
error: too-large: frame of 4294967295 bytes, at most 75497472

# The checksum is right in what follows, the payload is not. It goes on after its last field:
frame event
00 e8 a0 7e 15 9d 97 17  00
----
header 50 01 09 00 09 00 00 00 d8 d8 26 01
event: error: bad-frame: 1 bytes follow the event

# Four billion rows in a few bytes:
frame rows
ff ff ff ff  01 02 00 00  04 00 00 00
----
header 50 01 04 00 0c 00 00 00 61 db f4 d6
rows: error: bad-frame: batch of 4294967295 rows, flags 0x1; a frame holds 1 to 65536 rows

# Rows without an acq:
frame rows
01 00 00 00  00 02 00 00  04 00 00 00
00 00  07 00 00 00 00 00 00 00
00 00  e9 03 00 00 00 00 00 00
00 00  03 00 00 00 00 00 00 00
00 00  00 00 2a 36 fe 9c 97 17
32 31 2e 35
----
header 50 01 04 00 38 00 00 00 f6 e6 78 a5
rows: error: bad-frame: rows of an answer carry no acq

# A cid that 32 bits cannot hold:
frame rows
01 00 00 00  01 02 00 00  04 00 00 00
00 00  00 00 00 00 01 00 00 00
00 00  e9 03 00 00 00 00 00 00
00 00  03 00 00 00 00 00 00 00
00 00  00 00 2a 36 fe 9c 97 17
00 00  00 58 71 2e 0c 9d 97 17
32 31 2e 35
----
header 50 01 04 00 42 00 00 00 34 4b 07 7e
rows: error: bad-frame: cid of row 0 does not fit 32 bits

# An as-of acq, but the view is not "as of":
frame query
01 00 00 00
00 e8 a0 7e 15 9d 97 17
00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00
00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00
00 00 00 00  00 00 00 00
----
header 50 01 03 00 38 00 00 00 5a a1 bb 9b
query: error: as of: inconsistent: an acq is given, but the view is not "as of"

# An error has a frame of its own, in place of the answer or of the rest of it.
read
50 01 07 00  2d 00 00 00  91 79 33 09
0b 00 00 00  c8 00 00 00              # kind 11: overloaded, again after 200 ms
19 00 00 00  74 6f 6f 20 6d 61 6e 79 20 72 65 71 75 65 73 74 73 20 61 74 20 6f 6e 63 65
00 00 00 00  00 00 00 00              # no part, no reason
----
error: overloaded: too many requests at once, again after 200 ms
