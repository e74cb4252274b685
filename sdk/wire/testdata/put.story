# A client stores two records and is answered.
#
# Every message is a frame: a header of 12 bytes and a payload. All numbers are little-endian. Bytes
# are shown in hex, with what they mean beside them.

read
50 01 01 00  61 00 00 00  2b ae 6e bc # 'P', version 1, type 1 (put), zero; 97 bytes; checksum
7e 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01  # the writer, who drew this id once
2a 00 00 00 00 00 00 00               # its batch number 42: sent again it is stored once
02 00 00 00  00 02 00 00  00 00 00 00 # 2 rows without acq; payloads of different sizes
00 00  07 00 00 00 00 00 00 00        # column cid: base 7, and 0 bits for what is added to it
00 02  e9 03 00 00 00 00 00 00  0c    # mid: base 1001, 2 bits each: 0 and 3
00 00  03 00 00 00 00 00 00 00        # moid: 3 and 3
00 09  00 00 2a 36 fe 9c 97 17  00 e8 03  # cap: base, 9 bits each: 0 and 500 ns
00 02  02 00 00 00 00 00 00 00  02    # sizes of payloads: 2 + 2, 2 + 0
32 31 2e 35 31 39                     # the payloads, one after another
----
put: writer 7e000000000000000000000000000001, sequence 42
  7/1001/3 2023-11-14T22:13:20Z = "21.5"
  7/1004/3 2023-11-14T22:13:20.0000005Z = "19"

# The node answers with the acq that it gave each record: the first and the last.
read
50 01 02 00  18 00 00 00  e1 8a 12 38
00 58 71 2e 0c 9d 97 17               # first acq
01 58 71 2e 0c 9d 97 17               # last acq
02 00 00 00  00  00 00 00             # 2 records, not a duplicate
----
put-reply: 2 records, acq 2023-11-14T22:14:20Z to 2023-11-14T22:14:20.000000001Z, duplicate false

# A correction and a deletion are records, too. A tombstone has a bit, and no payload.
read
50 01 01 00  59 00 00 00  50 00 06 ed
7e 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
2b 00 00 00 00 00 00 00               # the batch after 42
02 00 00 00  02 02 00 00  04 00 00 00 # 2 rows, flag 2: with tombstones; 4 bytes each
00 00  07 00 00 00 00 00 00 00
00 02  e9 03 00 00 00 00 00 00  0c
00 00  03 00 00 00 00 00 00 00
00 09  00 00 2a 36 fe 9c 97 17  00 e8 03
02                                    # bit 1: the second row is a tombstone
32 31 2e 36  00 00 00 00
----
put: writer 7e000000000000000000000000000001, sequence 43
  7/1001/3 2023-11-14T22:13:20Z = "21.6"
  7/1004/3 2023-11-14T22:13:20.0000005Z = deleted
