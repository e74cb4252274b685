"""Sealed payloads of pentad in Python: open, sum, tokens. SEALING.md describes the bytes.

It is written from that document and not from the Go package, so that the two check each other.
It needs Python 3.9 and the package cryptography (Debian: python3-cryptography).

    tenant = Tenant({1: root}, cid=1, definitions=[json.load(open("meters.json"))])
    values, opaque = tenant.open(mid, moid, cap_ns, payload)
    count, sums = tenant.sum(partial)      # of the plugin sealed-stats
    token = tenant.range_token(schema, "energy", low, high, [(mid, moid)])  # of sealed-range
    token = tenant.equal_token(schema, "state", "on", [(mid, moid)])        # of sealed-equal

`python3 pentad_seal.py vectors.json` checks the vectors of testdata.
"""

import hashlib
import hmac
import json
import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SUM, SQUARES, TREND, BUCKET = range(4)
CORRECTION, DELTA, MAC, ENVELOPE = 1, 2, 16, 32
PRIME = 2**127 - 1


class SealError(Exception):
    """A payload or a sum that is not what it should be."""


def derive(parent, label, *context):
    """HKDF-Expand with SHA-256; 32 bytes are one block of it."""
    info = b"pentad/v1/" + label + b"\0"
    for c in context:
        info += struct.pack(">H", len(c)) + c
    return hmac.new(parent, info + b"\x01", hashlib.sha256).digest()


def aes_block(key, block):
    c = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return c.update(block) + c.finalize()


def keystream(key, at, size):
    """Bytes of AES-256-CTR from counter 0."""
    first = at // 16
    c = Cipher(algorithms.AES(key), modes.CTR(first.to_bytes(16, "big"))).encryptor()
    return c.update(bytes(at % 16 + size))[at % 16 :]


def signed(value, bits):
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


class Lane:
    def __init__(self, field, kind, bucket, width):
        self.field, self.kind, self.bucket, self.width = field, kind, bucket, width
        self.offset = self.pad = 0


class Schema:
    """The layout of payloads, which follows from a definition."""

    def __init__(self, definition):
        self.id, self.fields = definition["schema"], definition["fields"]
        self.records = definition["max_records"]
        self.envelope, self.mac = definition.get("envelope", False), definition.get("mac")
        self.lanes, self.row, self.order, self.equal, self.mac_at = [], [], {}, {}, 0
        for i, f in enumerate(self.fields):
            self._add_lanes(i, f)
        self.lanes.sort(key=lambda lane: lane.width == 4)  # stable
        at = 24
        for lane in self.lanes:
            lane.offset, at = at, at + lane.width
        at = (at + 7) // 8 * 8
        for i, f in enumerate(self.fields):
            if f.get("order"):
                wide = not f["order"].get("width") and f["max"] > 2**31 - 1
                self.order[i] = (at, 16 if wide else 8)
                at += self.order[i][1]
        for i, f in enumerate(self.fields):
            if f.get("equal") is not None:
                self.equal[i] = (at, 8)
                at += 8
        if self.mac is not None:
            self.mac_at, at = at, at + 16
        self.prefix = at
        self.flags = (MAC if self.mac is not None else 0) | (ENVELOPE if self.envelope else 0)
        self.fingerprint = hashlib.sha256(self._text()).digest()

    def _add_lanes(self, i, f):
        def width(*bounds):
            most = self.records
            for b in bounds:
                most *= b
            return 8 if most < 1 << 63 else 16

        added = []
        if f.get("sum"):
            added.append(Lane(i, SUM, 0, width(f["max"])))
        if f.get("sum_squares"):
            added.append(Lane(i, SQUARES, 0, width(f["max"], f["max"])))
        if f.get("trend"):
            added.append(Lane(i, TREND, 0, width(f["max"], f["trend"]["max_units"])))
        if f.get("histogram"):
            for b in range(len(f["histogram"]) + 1):
                added.append(Lane(i, BUCKET, b, 8 if self.records > 2**32 - 1 else 4))
        pad = 0
        for lane in added:
            lane.pad, pad = pad, pad + lane.width
        self.row.append(pad)
        self.lanes += added

    def _text(self):
        """What the fingerprint is a hash of."""

        def scope(part):
            return b"\0" if part is None else bytes([2 if part.get("scope") else 1])

        b = b"pentad/schema/v1\0" + struct.pack(">HQB", self.id, self.records, self.envelope)
        b += scope(self.mac) + struct.pack(">H", len(self.fields))
        for f in self.fields:
            name = f["name"].encode()
            b += struct.pack(">HH", f["id"], len(name)) + name
            b += struct.pack(">BBQ", f["kind"] == "text", f.get("digits", 0), f.get("max", 0))
            b += struct.pack(">BB", f.get("sum", False), f.get("sum_squares", False))
            trend, bounds = f.get("trend"), f.get("histogram", [])
            b += b"\0" if not trend else b"\1" + struct.pack(
                ">qqQ", trend["origin_ns"], trend["unit_ns"], trend["max_units"])
            b += struct.pack(">H%dq" % len(bounds), len(bounds), *bounds)
            order, equal = f.get("order"), f.get("equal")
            b += scope(order)
            if order is not None:
                b += struct.pack(">qQI", order.get("low", 0), order.get("width", 0),
                                 order.get("buckets", 0))
            b += scope(equal)
            if equal is not None:
                b += struct.pack(">q", equal.get("period_ns", 0))
        return b


    def field(self, name):
        """The number of a field."""
        for i, f in enumerate(self.fields):
            if f["name"] == name:
                return i
        raise SealError("schema %d has no field %r" % (self.id, name))


class Header:
    def __init__(self, payload):
        if len(payload) < 24 or payload[0] != 1 or payload[1] != 1:
            raise SealError("not a sealed payload of version 1 and suite 1")
        (self.schema, self.key_id, self.chain, self.seq, self.flags) = struct.unpack_from(
            "<HIQIB", payload, 2)
        self.check = payload[21:24]
        if self.flags & ~(CORRECTION | DELTA | MAC | ENVELOPE) or self.seq == 0:
            raise SealError("flags or sequence number that are not known")


class Reader:
    """Reads a partial and the content of an envelope."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n > len(self.data) - self.at:
            raise SealError("it ends too early")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def uvarint(self):
        value = shift = 0
        while True:
            b = self.take(1)[0]
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value

    def varint(self):
        n = self.uvarint()
        return n >> 1 ^ -(n & 1)

    def runs(self):
        kind = self.take(1)[0]
        if kind == 1:
            first, n = self.uvarint(), self.uvarint()
            bits = int.from_bytes(self.take((n + 7) // 8), "little")
            return [(first + i, first + i) for i in range(n) if bits >> i & 1]
        if kind not in (0, 2):
            raise SealError("an encoding of runs that is not known")
        out, after = [], 0
        for _ in range(self.uvarint()):
            first = after + (self.uvarint() if kind == 0 else self.varint())
            last = first + self.uvarint()
            out.append((first, last))
            after = last + 1
        return sorted(out)


class Tenant:
    """Opens what belongs to one tenant. Roots are by key id; devices have derived keys."""

    def __init__(self, roots, cid, definitions):
        self.roots, self.cid = roots, cid
        self.schemas = {s.id: s for s in map(Schema, definitions)}

    def _keys(self, schema, key_id, mid, moid):
        root = self.roots[key_id]
        device = derive(root, b"dev", struct.pack(">i", self.cid), struct.pack(">q", mid))
        series = derive(device, b"ser", struct.pack(">i", moid), schema.fingerprint)
        return root, device, series

    def _rows(self, schema, series, chain):
        """A function that returns the row of pads of a field, or of the MAC (field None)."""
        keys = {}

        def row(field, seq):
            if field not in keys:
                keys[field] = (
                    derive(series, b"macpad", struct.pack(">Q", chain)) if field is None else
                    derive(series, b"add", struct.pack(">H", schema.fields[field]["id"]),
                           struct.pack(">Q", chain)))
            width = 16 if field is None else schema.row[field]
            return keystream(keys[field], seq * width, width)

        return row

    @staticmethod
    def _pad(rows, lane, seq):
        at = lane.pad
        return int.from_bytes(rows(lane.field, seq)[at : at + lane.width], "little")

    @staticmethod
    def _element(b):
        return (int.from_bytes(b[:16], "little") & (2**127 - 1)) % PRIME

    def _mac(self, schema, root, device, moid, lanes):
        """The MAC of numbers in lanes, without pads."""
        scope = root if schema.mac.get("scope") else device
        key = derive(scope, b"mac", struct.pack(">i", moid), schema.fingerprint)
        total = 0
        for lane, v in zip(schema.lanes, lanes):
            factor = derive(key, b"mac", struct.pack(">H", schema.fields[lane.field]["id"]),
                            bytes([lane.kind]), struct.pack(">H", lane.bucket))
            total += self._element(factor) * v
        return total % PRIME

    def _schema(self, number, check):
        s = self.schemas.get(number)
        if s is None or s.fingerprint[:3] != check:
            raise SealError("it is of another schema, or of a changed one")
        return s

    def open(self, mid, moid, cap_ns, payload):
        """Returns the values of all fields (numbers in units) and the opaque bytes."""
        h = Header(payload)
        s = self._schema(h.schema, h.check)
        if bool(h.flags & MAC) != (s.mac is not None) or bool(h.flags & ENVELOPE) != s.envelope:
            raise SealError("its parts are not those of the schema")
        root, device, series = self._keys(s, h.key_id, mid, moid)
        rows = self._rows(s, series, h.chain)
        lanes = []
        for lane in s.lanes:
            c = int.from_bytes(payload[lane.offset : lane.offset + lane.width], "little")
            c += self._pad(rows, lane, h.seq - 1) - self._pad(rows, lane, h.seq)
            lanes.append(signed(c, 8 * lane.width))
        if s.mac is not None:
            want = self._mac(s, root, device, moid, lanes)
            want += self._element(rows(None, h.seq)) - self._element(rows(None, h.seq - 1))
            if self._element(payload[s.mac_at :]) != want % PRIME:
                raise SealError("the MAC is wrong")
        values = [None] * len(s.fields)
        for lane, v in zip(s.lanes, lanes):
            if lane.kind == SUM:
                values[lane.field] = v
        if not s.envelope:
            return values, b""
        address = b"pentad/aad/v1" + struct.pack(">iqiqq", self.cid, mid, moid, cap_ns, 0)
        key = derive(series, b"aead", struct.pack(">Q", h.chain))
        sealed = payload[s.prefix :]
        try:
            content = AESGCM(key).decrypt(sealed[:12], sealed[12:], address + payload[: s.prefix])
        except InvalidTag:
            raise SealError("the envelope does not authenticate") from None
        r = Reader(content)
        for i, f in enumerate(s.fields):
            if f["kind"] == "text":
                values[i] = r.take(r.uvarint()).decode()
            elif not f.get("sum") or h.flags & DELTA:
                values[i] = r.varint()
        return values, r.data[r.at :]

    def sum(self, partial):
        """Returns the count of a partial and the numbers in its lanes, in their order."""
        r = Reader(partial)
        if r.take(1) != b"\1":
            raise SealError("a version of a partial that is not known")
        flags, number, check = r.number("B"), r.number("H"), r.take(3)
        s = self._schema(number, check)
        count, deltas = r.uvarint(), r.uvarint()
        lanes = [int.from_bytes(r.take(lane.width), "little") for lane in s.lanes]
        r.take(32 * sum(1 for lane in s.lanes if lane.kind == TREND))  # sums of times
        mac = int.from_bytes(r.take(24), "little") if flags & 1 else None
        pads, scopes, seen, records = 0, {}, {}, 0
        for _ in range(r.uvarint()):
            cid, mid, moid = r.number("i"), r.number("q"), r.number("i")
            if cid != self.cid:
                raise SealError("records of another tenant")
            for _ in range(r.uvarint()):
                chain, key_id = r.number("Q"), r.number("I")
                root, device, series = self._keys(s, key_id, mid, moid)
                rows = self._rows(s, series, chain)
                scopes[(root if (s.mac or {}).get("scope") else device, moid)] = (root, device)
                for first, last in r.runs():
                    seen.setdefault((mid, moid, chain, key_id), []).append((first, last))
                    records += last - first + 1
                    for i, lane in enumerate(s.lanes):
                        lanes[i] += self._pad(rows, lane, first - 1) - self._pad(rows, lane, last)
                    if mac is not None:
                        pads += self._element(rows(None, last))
                        pads -= self._element(rows(None, first - 1))
        for runs in seen.values():
            runs.sort()
            if any(a[1] >= b[0] for a, b in zip(runs, runs[1:])):
                raise SealError("a record was added twice")
        if r.at != len(partial) or records != count + deltas:
            raise SealError("the records are not those that it says")
        for i, lane in enumerate(s.lanes):
            lanes[i] = signed(lanes[i], 8 * lane.width)
            if lane.kind == BUCKET:
                lanes[i] %= 1 << 8 * lane.width
        if mac is not None and len(scopes) == 1:
            ((_, moid), (root, device)), = scopes.items()
            if mac % PRIME != (self._mac(s, root, device, moid, lanes) + pads) % PRIME:
                raise SealError("the MAC of the sum is wrong")
        return count, lanes

    def order_tag(self, schema_id, name, key_id, mid, moid, units):
        """The order tag of a number: what a range token has of each of its ends."""
        s = self.schemas[schema_id]
        i = s.field(name)
        f, (_, width) = s.fields[i], s.order[i]
        root, device, _ = self._keys(s, key_id, mid, moid)
        key = derive(root if f["order"].get("scope") else device, b"ore", struct.pack(">i", moid),
                     s.fingerprint, struct.pack(">H", f["id"]))
        n = 4 * width
        if f["order"].get("width"):
            bucket = (units - f["order"].get("low", 0)) // f["order"]["width"]
            x = min(max(bucket, 0), f["order"]["buckets"] - 1)
        else:
            x = (units + (1 << n - 1)) % (1 << n)
        out = 0
        for j in range(n):
            d = j // 6 * 6
            block = aes_block(key, struct.pack(">BxxxxxxxQ", d, x >> n - d if d else 0))
            index = 1 << j - d | x >> n - j & (1 << j - d) - 1
            g = block[index // 4] >> 2 * (index % 4) & 3
            out = out << 2 | (x >> n - 1 - j & 1) + g & 3
        return out.to_bytes(width, "big")


    def equal_tag(self, schema_id, name, key_id, mid, moid, value, period=0):
        """The equality tag of a text or of a number in units."""
        s = self.schemas[schema_id]
        f = s.fields[s.field(name)]
        root, device, _ = self._keys(s, key_id, mid, moid)
        key = derive(root if f["equal"].get("scope") else device, b"bidx", struct.pack(">i", moid),
                     s.fingerprint, struct.pack(">H", f["id"]), struct.pack(">q", period))
        form = b"t" + value.encode() if f["kind"] == "text" else b"n" + struct.pack(">q", value)
        return hmac.new(key, form, hashlib.sha256).digest()[:8]

    def range_token(self, schema_id, name, low, high, series):
        """What sealed-range selects numbers from low to high by, in units and both included.

        None is no end. Series are pairs of mid and moid that the query may have records of.
        """
        s = self.schemas[schema_id]
        i = s.field(name)
        f, most = s.fields[i], s.fields[i]["max"]
        if i not in s.order:
            raise SealError("field %r of schema %d has no order" % (name, schema_id))
        low, high = -most if low is None else low, most if high is None else high
        if low > high or low > most or high < -most:
            raise SealError("no value is from %d to %d" % (low, high))
        ends = [low if low > -most else None, high if high < most else None]
        o = f["order"]
        if o.get("width"):
            begins = [v + k for k, v in enumerate(ends) if v is not None]
            for v in begins:
                n = v - o.get("low", 0)
                if n <= 0 or n % o["width"] or n // o["width"] >= o["buckets"]:
                    raise SealError("the range cuts a bucket; begin and end where buckets do")
        return self._token(s, s.order[i], o, series, lambda key_id, mid, moid: [
            "-" if v is None else self.order_tag(schema_id, name, key_id, mid, moid, v).hex()
            for v in ends])

    def equal_token(self, schema_id, name, value, series, from_ns=0, to_ns=1):
        """What sealed-equal selects a value by, in caps from from_ns to below to_ns.

        Only fields whose tags are those of periods look at the time.
        """
        s = self.schemas[schema_id]
        i = s.field(name)
        if i not in s.equal:
            raise SealError("field %r of schema %d has no equality" % (name, schema_id))
        period = s.fields[i]["equal"].get("period_ns", 0)
        periods = range(from_ns // period, (to_ns - 1) // period + 1) if period else [0]
        return self._token(s, s.equal[i], s.fields[i]["equal"], series, lambda key_id, mid, moid: [
            self.equal_tag(schema_id, name, key_id, mid, moid, value, p).hex() for p in periods])

    def _token(self, s, place, part, series, tags):
        """SCHEMA:CHECK P FLAGS OFFSET WIDTH, and the tags of each series under each key."""
        text = "%d:%s %d %d %d %d" % (s.id, s.fingerprint[:3].hex(), s.prefix, s.flags, *place)
        tenant = part.get("scope")
        for mid, moid in dict.fromkeys((0 if tenant else mid, moid) for mid, moid in series):
            for key_id in sorted(self.roots):
                text += ";%d %s %d %s" % (key_id, "*" if tenant else mid, moid,
                                          ",".join(tags(key_id, mid, moid)))
        return text


def compare_order(a, b):
    """-1, 0 or 1, as the values of two order tags compare."""
    x, y = int.from_bytes(a, "big"), int.from_bytes(b, "big")
    for shift in range(8 * len(a) - 2, -2, -2):
        if (difference := (x >> shift) - (y >> shift) & 3) != 0:
            return 1 if difference == 1 else -1
    return 0


def check_vectors(path):
    with open(path, encoding="utf-8") as file:
        v = json.load(file)
    t = Tenant({v["key_id"]: bytes.fromhex(v["root"])}, v["cid"],
               [s["definition"] for s in v["schemas"]])
    for s in v["schemas"]:
        got = t.schemas[s["definition"]["schema"]].fingerprint.hex()
        assert got == s["fingerprint"], ("fingerprint", got)
    tampered = False
    for p in v["payloads"]:
        payload = bytes.fromhex(p["payload"])
        values, opaque = t.open(p["mid"], p["moid"], p["cap_ns"], payload)
        assert [str(x) for x in values] == p["values"] and opaque.hex() == p["opaque"], p
        if t.schemas[Header(payload).schema].envelope and not tampered:
            tampered = True
            for at in range(24, len(payload), 31):
                changed = bytearray(payload)
                changed[at] ^= 4
                try:
                    t.open(p["mid"], p["moid"], p["cap_ns"], bytes(changed))
                except SealError:
                    continue
                raise AssertionError("byte %d was changed unnoticed" % at)
    for p in v["partials"]:
        count, lanes = t.sum(bytes.fromhex(p["partial"]))
        assert count == p["count"] and [str(x) for x in lanes] == p["lanes"], (count, lanes)
    tags = {}
    for o in v["order"]:
        tag = t.order_tag(o["schema"], o["field"], v["key_id"], o["mid"], o["moid"], o["value"])
        assert tag.hex() == o["tag"], (o, tag.hex())
        for value, other in tags.get((o["field"], o["mid"]), []):
            if o["exact"]:
                assert compare_order(tag, other) == (o["value"] > value) - (o["value"] < value)
        tags.setdefault((o["field"], o["mid"]), []).append((o["value"], tag))
    for o in v["tokens"]:
        series, (from_ns, to_ns) = [tuple(one) for one in o["series"]], o["during_ns"]
        if "range" in o:
            token = t.range_token(o["schema"], o["field"], *o["range"], series)
        else:
            s = t.schemas[o["schema"]]
            text = s.fields[s.field(o["field"])]["kind"] == "text"
            value = o["value"] if text else int(o["value"])
            token = t.equal_token(o["schema"], o["field"], value, series, from_ns, to_ns)
        assert token == o["token"], (o, token)
    print("checked %d payloads, %d partials, %d order tags, %d tokens" % (
        len(v["payloads"]), len(v["partials"]), len(v["order"]), len(v["tokens"])))


if __name__ == "__main__":
    check_vectors(sys.argv[1])
