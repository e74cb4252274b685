/* sealed-stats: adds up sealed payloads, without a key. The result is a partial of sdk/seal: the
 * sums of the lanes, still encrypted, and which records they are of. sdk/seal/SEALING.md has both
 * layouts.
 *
 * A state keeps the runs of sequence numbers of each chain, in the order in which they came. Rows of
 * a block mostly go on where the row before them ended, so that is looked for first.
 */
#include "pentad.h"

enum { HEADER = 24, MAX_LANES = 2048, MAX_SLOTS = 4096, FLAG_DELTA = 2, FLAG_MAC = 16, PARTIAL_MAC = 1,
       ESEALED = -100, EPARTIAL = -101 };

typedef unsigned __int128 u128;
typedef __int128 i128;

typedef struct { u32 from, to; } run;

typedef struct {
  i64 mid;
  i32 cid, moid;
  u64 id;
  u32 key, runs, room, unsorted;
  run *r;
  u32 next; /* in the list of its slot, from 1 */
} chain;

typedef struct {
  u64 count, deltas;
  u128 *sums; /* of lanes, then time and its square of each trend, then MACs in two of 96 bits */
  chain *chains;
  u32 *slots; /* lists of chains by hash: the number of the first, from 1 */
  u32 n, room, last, n_slots;
} state;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_CID | PENTAD_MID |
                  PENTAD_MOID | PENTAD_CAP,
              sizeof(state), 8, 0, 8 + 4096, PENTAD_GROWS, "sealed-stats",
              "{\"name\":\"sealed-stats\",\"version\":\"1\","
              "\"about\":\"adds up sealed payloads; who has the key reads the sums\","
              "\"payload\":[\"bytes\"],"
              "\"params\":[{\"name\":\"layout\",\"type\":\"text\",\"size\":4096,"
              "\"help\":\"of payloads, as pentad seal schema prints it\"}]}")

/* The layout. */
static struct { i64 origin, unit; } trends[MAX_LANES];
static u8 widths[MAX_LANES], is_trend[MAX_LANES];
static u32 lanes, n_trends, prefix, schema, check, flags;

static u32 n_sums(void) { return lanes + 2 * n_trends + (flags & FLAG_MAC ? 2 : 0); }

static i32 bad_layout(void) {
  return pentad_bad_params("layout must be SCHEMA:CHECK PREFIX FLAGS WIDTHS, as pentad seal schema "
                           "prints it");
}

/* A number at *p, which ends at a separator that is returned; 0 at the end, 1 for none. */
static u8 take_number(const u8 **p, const u8 *end, i64 *v) {
  u64 n = 0;
  u32 digits = 0, negative = *p < end && **p == '-';
  *p += negative;
  for (; *p < end && **p >= '0' && **p <= '9'; (*p)++, digits++) n = n * 10 + (**p - '0');
  *v = negative ? (i64)-n : (i64)n;
  if (!digits || digits > 19) return 1;
  return *p < end ? *(*p)++ : 0;
}

/* Six hexadecimal digits and a space at *p, as three bytes with the first one lowest; 1 if they are. */
static u32 take_check(const u8 **p, const u8 *end, u32 *v) {
  if (end - *p < 7 || (*p)[6] != ' ') return 0;
  for (u32 i = 0; i < 6; i++) {
    u8 c = (*p)[i];
    u32 digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (digit > 15 || (c > '9' && digit < 10)) return 0;
    *v |= digit << (4 * (i ^ 1));
  }
  *p += 7;
  return 1;
}

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len < 8) return bad_layout();
  u32 size;
  const u8 *p = pentad_text(params, 0, &size), *end = p + size;
  i64 v[3];
  for (u32 i = 0; i < 3; i++) {
    if (take_number(&p, end, &v[i]) != (i ? ' ' : ':') || v[i] < 0 || v[i] > 65535)
      return bad_layout();
    if (!i && !take_check(&p, end, &check)) return bad_layout();
  }
  schema = (u32)v[0];
  prefix = (u32)v[1];
  flags = (u32)v[2];
  u32 at = HEADER;
  for (u8 next = ','; next == ',';) {
    i64 width;
    next = take_number(&p, end, &width);
    if (lanes == MAX_LANES || (width != 4 && width != 8 && width != 16)) return bad_layout();
    if (next == '@') { /* a trend: ORIGIN/UNIT */
      if (take_number(&p, end, &trends[n_trends].origin) != '/') return bad_layout();
      next = take_number(&p, end, &trends[n_trends].unit);
      if (trends[n_trends++].unit <= 0) return bad_layout();
      is_trend[lanes] = 1;
    }
    widths[lanes++] = (u8)width;
    at += (u32)width;
    if (next != ',' && next != 0) return bad_layout();
  }
  if (at + (flags & FLAG_MAC ? 16 : 0) > prefix) return bad_layout();
  return (i32)prefix;
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  __builtin_memset(s, 0, n * sizeof(state));
}

static i32 no_memory(void) {
  return pentad_fail(PENTAD_ENOMEM, "there are more chains than memory; ask for fewer series, or a "
                                    "shorter time");
}

static void say_schema(u32 number, u32 of) {
  pentad_say_u32(number);
  for (u32 i = 0; i < 6; i++) {
    char digit[2] = {"0123456789abcdef"[of >> (4 * (i ^ 1)) & 15], 0};
    if (!i) pentad_say(":");
    pentad_say(digit);
  }
}

/* A payload that is not of the layout, and which schema it names. */
static PENTAD_COLD i32 not_sealed(const u8 *p, u32 size, u32 row) {
  pentad_message_len = pentad_noted;
  pentad_say("record ");
  pentad_say_u32(row);
  pentad_say(" of the batch is ");
  u32 other = 0;
  if (size >= HEADER && p[0] == 1 && p[1] == 1) {
    u32 number = (u32)pentad_i32(p) >> 16, of = (u32)pentad_i32(p + 20) >> 8;
    other = number != schema || of != check;
    if (other) {
      pentad_say("sealed by schema ");
      say_schema(number, of);
      pentad_say(", ");
    }
  }
  pentad_say("not sealed by schema ");
  say_schema(schema, check);
  pentad_say(other && (u32)pentad_i32(p) >> 16 == schema
                 ? ": its definition was changed"
                 : "; choose the quantity that is, or the layout of its schema");
  return ESEALED;
}

static u32 hash(i64 mid, i32 cid, i32 moid, u64 id) {
  u64 h = id ^ (u64)mid * 0x9e3779b97f4a7c15 ^ (u64)(u32)cid << 32 ^ (u32)moid;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  return (u32)(h ^ h >> 31);
}

static void place(state *s, u32 number) {
  chain *c = s->chains + number;
  u32 *slot = s->slots + (hash(c->mid, c->cid, c->moid, c->id) & (s->n_slots - 1));
  c->next = *slot;
  *slot = number + 1;
}

/* More room for chains; 0 when there is no memory. There is no fuel to place more than some thousand
 * chains again, so from then on lists grow instead of the table. */
static u32 grow(state *s) {
  u32 room = s->room ? 2 * s->room : 4;
  chain *more = pentad_regrow(s->chains, s->n * sizeof(chain), room * sizeof(chain));
  if (!more) return 0;
  s->chains = more;
  s->room = room;
  if (s->n_slots == MAX_SLOTS) return 1;
  u32 *slots = (u32 *)pentad_alloc(room * sizeof(u32));
  if (!slots) return 0;
  __builtin_memset(slots, 0, room * sizeof(u32));
  s->slots = slots;
  s->n_slots = room;
  for (u32 i = 0; i < s->n; i++) place(s, i);
  return 1;
}

/* The chain of a series, 0 when there is no memory. */
static chain *find(state *s, i64 mid, i32 cid, i32 moid, u64 id, u32 key) {
  u32 at = s->n_slots ? s->slots[hash(mid, cid, moid, id) & (s->n_slots - 1)] : 0;
  for (; at; at = s->chains[at - 1].next) {
    chain *c = s->chains + at - 1;
    if (c->id == id && c->mid == mid && c->cid == cid && c->moid == moid && c->key == key) {
      s->last = at - 1;
      return c;
    }
  }
  if (s->n == s->room && !grow(s)) return 0;
  s->chains[s->n] = (chain){mid, cid, moid, id, key, 0, 0, 0, 0, 0};
  s->last = s->n;
  place(s, s->n);
  return s->chains + s->n++;
}

/* Adds a run to a chain; 0 when there is no memory. */
static inline u32 add_run(chain *c, u32 from, u32 to) {
  if (c->runs && c->r[c->runs - 1].to + 1 == from) {
    c->r[c->runs - 1].to = to;
    return 1;
  }
  if (c->runs == c->room) {
    u32 room = c->room ? 2 * c->room : 2;
    run *more = pentad_regrow(c->r, c->runs * sizeof(run), room * sizeof(run));
    if (!more) return 0;
    c->r = more;
    c->room = room;
  }
  if (c->runs && c->r[c->runs - 1].to >= from) c->unsorted = 1;
  c->r[c->runs++] = (run){from, to};
  return 1;
}

/* The sums of a state that has some; 0 when there is no memory. */
static u128 *sums_of(state *s) {
  if (!s->sums) {
    u32 size = n_sums() * sizeof(u128);
    s->sums = (u128 *)pentad_alloc(size);
    if (s->sums) __builtin_memset(s->sums, 0, size);
  }
  return s->sums;
}

static inline u128 load(const u8 *p, u32 width) {
  if (width == 8) return pentad_u64(p);
  if (width == 4) return (u32)pentad_i32(p);
  return (u128)pentad_u64(p + 8) << 64 | pentad_u64(p);
}

/* The time of a record in units, rounded down. */
static i64 units(u32 trend, i64 cap) {
  i64 ns = (i64)((u64)cap - (u64)trends[trend].origin), unit = trends[trend].unit;
  i64 n = ns / unit;
  return ns % unit < 0 ? n - 1 : n;
}

/* The square of a number, of 128 bits. */
static u128 square(i64 v) {
  u64 n = v < 0 ? -(u64)v : (u64)v, low = (u32)n, high = n >> 32;
  return ((u128)(high * high) << 64) + ((u128)(low * high) << 33) + low * low;
}

/* Adds what a payload has, behind its header. */
static inline void add_lanes(u128 *sums, const u8 *p, i64 cap, u32 delta) {
  const u8 *at = p + HEADER;
  u32 trend = 0;
  for (u32 i = 0; i < lanes; at += widths[i++]) {
    sums[i] += load(at, widths[i]);
    if (is_trend[i]) {
      i64 t = delta ? 0 : units(trend, cap);
      sums[lanes + 2 * trend] += (u128)(i128)t;
      sums[lanes + 2 * trend++ + 1] += square(t);
    }
  }
  if (flags & FLAG_MAC) { /* 96 bits each, so that nothing is lost of 192 */
    u128 mac = load(p + prefix - 16, 16), low = mac & (((u128)1 << 96) - 1);
    u128 *out = sums + lanes + 2 * n_trends, sum = out[0] + low;
    out[0] = sum & (((u128)1 << 96) - 1);
    out[1] += (sum >> 96) + (mac >> 96);
  }
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  u32 run = 0;
  for (u32 i = 0; i < b->n; i++) {
    u32 gid = 0, size;
    if (b->runs) {
      while (b->runs[run].end <= i) run++;
      gid = b->runs[run].gid;
    } else if (b->gid) {
      gid = b->gid[i];
    }
    state *s = states + gid;
    const u8 *p = pentad_payload(b, i, &size);
    if (size < prefix || size < HEADER) return not_sealed(p, size, i);
    u32 front = (u32)pentad_i32(p), seq = (u32)pentad_i32(p + 16);
    u32 what = (u32)pentad_i32(p + 20), key = (u32)pentad_i32(p + 4);
    /* Version, suite and schema; flags but those that say what is corrected, and the check. */
    if (front != (schema << 16 | 0x0101) || (what & ~3u) != (check << 8 | flags) || !seq)
      return not_sealed(p, size, i);
    u64 id = pentad_u64(p + 8);
    chain *c = s->n ? s->chains + s->last : 0;
    if (!c || c->id != id || c->mid != b->mid[i] || c->moid != b->moid[i] ||
        c->cid != b->cid[i] || c->key != key)
      c = find(s, b->mid[i], b->cid[i], b->moid[i], id, key);
    if (!c || !add_run(c, seq, seq)) return no_memory();
    u128 *sums = sums_of(s);
    if (!sums) return no_memory();
    if (what & FLAG_DELTA)
      s->deltas++;
    else
      s->count++;
    add_lanes(sums, p, b->cap[i], what & FLAG_DELTA);
  }
  return PENTAD_OK;
}

/* Whether there is room for a few numbers, which then need no further check. */
static inline u32 has_room(pentad_out *o) {
  if (o->end - o->at >= 64) return 1;
  o->full = 1;
  return 0;
}

static inline void put_uvarint(pentad_out *o, u64 v) {
  for (; v >= 128; v >>= 7) *o->at++ = (u8)(v | 128);
  *o->at++ = (u8)v;
}

/* How runs are written: SORTED ones by the gaps between them, others by signed steps, a BITMAP with a
 * bit for each number. Who reads them sorts them, as there is no fuel here to sort what comes in the
 * worst of orders. */
enum { SORTED, BITMAP, UNSORTED };

static void put_list(pentad_out *o, const chain *c) {
  u64 next = 0;
  *o->at++ = c->unsorted ? UNSORTED : SORTED;
  put_uvarint(o, c->runs);
  for (u32 i = 0; i < c->runs && has_room(o); i++) {
    i64 step = (i64)(c->r[i].from - next);
    put_uvarint(o, c->unsorted ? (u64)step << 1 ^ (u64)(step >> 63) : (u64)step);
    put_uvarint(o, c->r[i].to - c->r[i].from);
    next = (u64)c->r[i].to + 1;
  }
}

static void put_bitmap(pentad_out *o, const chain *c, u64 span) {
  *o->at++ = BITMAP;
  put_uvarint(o, c->r[0].from);
  put_uvarint(o, span);
  u8 *bits = o->at;
  u64 size = (span + 7) / 8;
  if (size > (u32)(o->end - o->at)) {
    o->full = 1;
    return;
  }
  __builtin_memset(bits, 0, (u32)size);
  o->at += size;
  for (u32 i = 0; i < c->runs; i++)
    for (u64 k = c->r[i].from - c->r[0].from; k <= c->r[i].to - c->r[0].from; k++)
      bits[k / 8] |= (u8)(1 << k % 8);
}

/* The runs of a chain: as a bitmap where these are many and near to each other. */
static void put_runs(pentad_out *o, const chain *c) {
  u64 span = (u64)c->r[c->runs - 1].to - c->r[0].from + 1;
  if (!c->unsorted && c->runs > 16 && span / 8 < c->runs)
    put_bitmap(o, c, span);
  else
    put_list(o, c);
}

static inline u32 same_series(const chain *a, const chain *b) {
  return a->mid == b->mid && a->cid == b->cid && a->moid == b->moid;
}

/* Writes the chains of a state. */
static void put_chains(pentad_out *o, const state *s) {
  const chain *c = s->chains, *end = c + s->n;
  u32 series = 0;
  for (u32 i = 0; i < s->n; i++) series += !i || !same_series(c + i, c + i - 1);
  if (!has_room(o)) return;
  put_uvarint(o, series);
  while (c < end) {
    u32 n = 1;
    while (c + n < end && same_series(c, c + n)) n++;
    if (!has_room(o)) return;
    __builtin_memcpy(o->at, &c->cid, 4);
    __builtin_memcpy(o->at + 4, &c->mid, 8);
    __builtin_memcpy(o->at + 12, &c->moid, 4);
    o->at += 16;
    put_uvarint(o, n);
    for (; n; n--, c++) {
      if (!has_room(o)) return;
      __builtin_memcpy(o->at, &c->id, 8);
      __builtin_memcpy(o->at + 8, &c->key, 4);
      o->at += 12;
      put_runs(o, c);
    }
  }
}

/* What partials of the layout begin with. */
static void front_of(u8 out[7]) {
  u8 front[7] = {1, flags & FLAG_MAC ? PARTIAL_MAC : 0, (u8)schema, (u8)(schema >> 8), (u8)check,
                 (u8)(check >> 8), (u8)(check >> 16)};
  __builtin_memcpy(out, front, sizeof front);
}

/* Writes a state as a partial: its size, or a status. */
static i32 write(const state *s, pentad_out *o) {
  u8 *from = o->at;
  u8 front[7];
  front_of(front);
  static const u128 nothing;
  if (has_room(o)) {
    pentad_put(o, front, sizeof front);
    put_uvarint(o, s->count);
    put_uvarint(o, s->deltas);
  }
  for (u32 i = 0; i < lanes; i++) pentad_put(o, s->sums ? s->sums + i : &nothing, widths[i]);
  for (u32 i = lanes; i < lanes + 2 * n_trends; i++)
    pentad_put(o, s->sums ? s->sums + i : &nothing, 16);
  for (u32 i = lanes + 2 * n_trends; i < n_sums(); i++)
    pentad_put(o, s->sums ? s->sums + i : &nothing, 12);
  put_chains(o, s);
  if (o->full)
    return pentad_fail(PENTAD_ECAP, "the list of the records is longer than a result may be; ask "
                                    "for fewer series, or a shorter time");
  return (i32)(o->at - from);
}

PENTAD_EXPORT(pentad_save) i32 pentad_save(state *s, u8 *out, u32 cap) {
  pentad_out o = {out, out + cap, 0};
  return write(s, &o);
}

static u64 take_uvarint(pentad_in *in) {
  u64 v = 0;
  for (u32 shift = 0; shift < 64; shift += 7) {
    u8 b = *pentad_take(in, 1);
    v |= (u64)(b & 127) << shift;
    if (b < 128) return v;
  }
  in->cut = 1;
  return 0;
}

/* The runs of a chain: 0 when there is no memory. What is not what save writes makes in->cut. */
static u32 take_runs(pentad_in *in, chain *c) {
  u8 form = *pentad_take(in, 1);
  if (form == SORTED || form == UNSORTED) {
    u64 next = 0;
    for (u64 n = take_uvarint(in); n && !in->cut; n--) {
      u64 step = take_uvarint(in);
      if (form == UNSORTED) step = step >> 1 ^ -(step & 1);
      u64 from = next + step, to = from + take_uvarint(in);
      if (!from || from > to || to > 0xffffffff) in->cut = 1;
      if (!in->cut && !add_run(c, (u32)from, (u32)to)) return 0;
      next = to + 1;
    }
    return 1;
  }
  u64 first = take_uvarint(in), n = take_uvarint(in);
  if (form != BITMAP || !first || first > 0xffffffff || n > 0x100000000 - first) in->cut = 1;
  if (in->cut) return 1;
  const u8 *bits = pentad_take(in, (n + 7) / 8);
  for (u64 k = 0; k < n && !in->cut; k++)
    if (bits[k / 8] >> k % 8 & 1 && !add_run(c, (u32)(first + k), (u32)(first + k))) return 0;
  return 1;
}

PENTAD_EXPORT(pentad_load) i32 pentad_load(state *s, const u8 *src, u32 size) {
  pentad_in in = {src, src + size, 0};
  u8 front[7];
  front_of(front);
  for (u32 i = 0; i < sizeof front; i++) in.cut |= *pentad_take(&in, 1) != front[i];
  s->count += take_uvarint(&in);
  s->deltas += take_uvarint(&in);
  u128 *sums = sums_of(s);
  if (!sums) return no_memory();
  for (u32 i = 0; i < lanes; i++) sums[i] += load(pentad_take(&in, widths[i]), widths[i]);
  for (u32 i = lanes; i < lanes + 2 * n_trends; i++) sums[i] += load(pentad_take(&in, 16), 16);
  if (flags & FLAG_MAC) {
    u128 *mac = sums + lanes + 2 * n_trends, part[2] = {0, 0};
    __builtin_memcpy(&part[0], pentad_take(&in, 12), 12);
    __builtin_memcpy(&part[1], pentad_take(&in, 12), 12);
    u128 sum = mac[0] + part[0];
    mac[0] = sum & (((u128)1 << 96) - 1);
    mac[1] += part[1] + (sum >> 96);
  }
  for (u64 series = take_uvarint(&in); series && !in.cut; series--) {
    i32 cid = pentad_i32(pentad_take(&in, 4));
    i64 mid = pentad_i64(pentad_take(&in, 8));
    i32 moid = pentad_i32(pentad_take(&in, 4));
    for (u64 n = take_uvarint(&in); n && !in.cut; n--) {
      u64 id = pentad_u64(pentad_take(&in, 8));
      u32 key = (u32)pentad_i32(pentad_take(&in, 4));
      if (in.cut) break;
      chain *c = find(s, mid, cid, moid, id, key);
      if (!c || !take_runs(&in, c)) return no_memory();
    }
  }
  return in.cut || in.at != in.end ? pentad_fail(EPARTIAL, "a saved sum is damaged") : PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(state *s, u32 n, u8 *out, u32 cap) {
  pentad_out o = {out, out + cap, 0};
  for (u32 i = 0; i < n; i++) {
    u32 size = 0;
    u8 *front = o.at;
    pentad_put(&o, &size, 4);
    i32 written = write(s + i, &o);
    if (written < 0) return written;
    size = (u32)written;
    __builtin_memcpy(front, &size, 4);
    pentad_put(&o, "\0\0\0", -size & 3);
    if (o.full) return PENTAD_ECAP;
  }
  return (i32)(o.at - out);
}
