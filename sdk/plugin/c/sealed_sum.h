/* sealed_sum.h: sums of payloads of sdk/seal, without a key. A sum keeps the lanes, still encrypted,
 * and which records it is of: the runs of sequence numbers of each chain, in the order in which they
 * came. A written sum is a partial of sdk/seal; sdk/seal/SEALING.md has both layouts. sealed_rows.h
 * adds the rows of a batch.
 *
 * Sums grow: the module has PENTAD_GROWS, and needs cid, mid, moid and cap.
 */
#ifndef SEALED_SUM_H
#define SEALED_SUM_H

#include "sealed.h"

enum { SEALED_MAX_LANES = 2048, SEALED_MAX_SLOTS = 4096, SEALED_MAX_SORTED = 1 << 13,
       SEALED_PARTIAL_MAC = 1, SEALED_PARTIAL_GROUPS = 2, SEALED_FRONT = 7,
       SEALED_SERIES = 32 /* the least bytes of a series with a chain */ };

typedef unsigned __int128 u128;
typedef __int128 i128;

typedef struct { u32 from, to; } sealed_run;

/* The end of the last run is that in last; in r it is what it was when the run began, until
 * sealed_end_runs. */
typedef struct {
  u64 front, id; /* the first 16 bytes of its payloads */
  i64 mid;
  i32 cid, moid;
  u32 runs, room, unsorted;
  sealed_run *r;
  u32 next;   /* in the list of its slot, from 1 */
  u32 follow; /* where the chain is that came after this one, in bytes from the first */
  u64 last;   /* the 8 bytes behind those, of the last record, without what says it corrects */
} sealed_chain;

_Static_assert(sizeof(sealed_chain) == 64, "a chain is one line of the cache");

typedef struct {
  u64 count, deltas;
  u128 *sums; /* of lanes, then time and its square of each trend, then MACs in two of 96 bits */
  sealed_chain *chains;
  u32 *slots; /* lists of chains by hash: the number of the first, from 1 */
  u32 n, room, n_slots, placed; /* the first ones of n are in slots */
  u32 last; /* where the chain of the last row is, in bytes from the first */
} sealed_sum;

/* The layout of the payloads that are added. */
static struct {
  sealed_schema schema;
  struct { i64 origin, unit; } trends[SEALED_MAX_LANES];
  u8 widths[SEALED_MAX_LANES], is_trend[SEALED_MAX_LANES];
  u32 lanes, n_trends, end; /* end: of the lanes */
  u32 lean;                 /* one lane of 8 bytes is all there is */
  u64 upper;                /* of the 8 bytes that a sequence number is in, what else is in them */
} sealed;

static inline u32 sealed_mac(void) { return sealed.schema.flags & SEALED_MAC; }

static inline u32 sealed_n_sums(void) { return sealed.lanes + 2 * sealed.n_trends + (sealed_mac() ? 2 : 0); }

PENTAD_COLD static inline i32 sealed_bad_layout(void) {
  return pentad_bad_params("layout must be SCHEMA:CHECK PREFIX FLAGS WIDTHS, as pentad seal schema "
                           "prints it");
}

/* Reads the layout: a status, or how much of payloads is read. */
static inline i32 sealed_layout(const u8 *p, u32 size) {
  const u8 *end = p + size;
  if (!sealed_schema_text(&p, end, &sealed.schema)) return sealed_bad_layout();
  u32 at = SEALED_HEADER;
  for (u8 next = ','; next == ',';) {
    i64 width;
    next = sealed_number(&p, end, &width);
    if (sealed.lanes == SEALED_MAX_LANES || (width != 4 && width != 8 && width != 16))
      return sealed_bad_layout();
    if (next == '@') { /* a trend: ORIGIN/UNIT */
      if (sealed_number(&p, end, &sealed.trends[sealed.n_trends].origin) != '/')
        return sealed_bad_layout();
      next = sealed_number(&p, end, &sealed.trends[sealed.n_trends].unit);
      if (sealed.trends[sealed.n_trends++].unit <= 0) return sealed_bad_layout();
      sealed.is_trend[sealed.lanes] = 1;
    }
    sealed.widths[sealed.lanes++] = (u8)width;
    at += (u32)width;
    if (next != ',' && next != 0) return sealed_bad_layout();
  }
  sealed.end = at;
  sealed.upper = (u64)(sealed.schema.check << 8 | sealed.schema.flags) << 32;
  sealed.lean = sealed.lanes == 1 && sealed.widths[0] == 8 && !sealed.n_trends && !sealed_mac();
  if (at + (sealed_mac() ? 16 : 0) > sealed.schema.prefix) return sealed_bad_layout();
  return (i32)sealed.schema.prefix;
}

static inline i32 sealed_no_memory(void) {
  return pentad_fail(PENTAD_ENOMEM, "there are more chains than memory; ask for fewer series, or a "
                                    "shorter time");
}

/* More room for chains; 0 when there is no memory. */
static inline u32 sealed_grow(sealed_sum *s, u32 room) {
  sealed_chain *more = pentad_regrow(s->chains, s->n * sizeof(sealed_chain), room * sizeof(sealed_chain));
  if (!more) return 0;
  s->chains = more;
  s->room = room;
  return 1;
}

/* Places chains in the slots in which they are looked for; 0 when there is no memory. There is no fuel
 * to place more than some thousand again, so from then on lists grow instead of the table. */
static inline u32 sealed_place(sealed_sum *s) {
  if (s->n_slots < s->room && s->n_slots < SEALED_MAX_SLOTS) {
    u32 n = 4;
    while (n < s->room && n < SEALED_MAX_SLOTS) n *= 2;
    u32 *slots = (u32 *)pentad_alloc(n * sizeof(u32));
    if (!slots) return 0;
    __builtin_memset(slots, 0, n * sizeof(u32));
    s->slots = slots;
    s->n_slots = n;
    s->placed = 0;
  }
  while (s->placed < s->n) {
    sealed_chain *c = s->chains + s->placed++;
    u32 *slot = s->slots + (sealed_hash(c->mid, c->cid, c->moid, c->id) & (s->n_slots - 1));
    c->next = *slot;
    *slot = s->placed;
  }
  return 1;
}

/* The chain that is this number of bytes behind the first. */
static inline sealed_chain *sealed_at(const sealed_sum *s, u32 bytes) {
  return (sealed_chain *)((u8 *)s->chains + bytes);
}

/* A chain that is not there yet; 0 when there is no memory. */
static inline sealed_chain *sealed_new(sealed_sum *s, i64 mid, i32 cid, i32 moid, u64 id, u64 front) {
  if (s->n == s->room && !sealed_grow(s, s->room ? 2 * s->room : 4)) return 0;
  s->chains[s->n] = (sealed_chain){.front = front, .id = id, .mid = mid, .cid = cid, .moid = moid,
                                   .follow = s->n * sizeof(sealed_chain)};
  return s->chains + s->n++;
}

/* The first 16 bytes of payloads have the key, too. */
static inline u64 sealed_front_of(u32 key) {
  return (u64)key << 32 | sealed.schema.schema << 16 | 0x0101;
}

/* The chain of a series, which follows the last one; 0 when there is no memory. */
static inline sealed_chain *sealed_find(sealed_sum *s, i64 mid, i32 cid, i32 moid, u64 id, u64 front) {
  if (s->placed < s->n && !sealed_place(s)) return 0;
  u32 at = s->n_slots ? s->slots[sealed_hash(mid, cid, moid, id) & (s->n_slots - 1)] : 0;
  sealed_chain *c = 0;
  for (; at; at = c->next) {
    c = s->chains + at - 1;
    if (c->id == id && c->mid == mid && c->cid == cid && c->moid == moid && c->front == front) break;
  }
  if (!at) c = sealed_new(s, mid, cid, moid, id, front);
  if (!c || (s->placed < s->n && !sealed_place(s))) return 0;
  u32 bytes = (u32)((u8 *)c - (u8 *)s->chains);
  if (bytes != s->last) sealed_at(s, s->last)->follow = bytes;
  s->last = bytes;
  return c;
}

/* Adds a run to a chain, in front of the last one or behind it where they touch; 0 when there is no
 * memory. */
static inline u32 sealed_add_run(sealed_chain *c, u32 from, u32 to) {
  u32 last = (u32)c->last;
  if (c->runs && last + 1 == from) {
    c->last = sealed.upper | to;
    return 1;
  }
  if (c->runs && c->r[c->runs - 1].from == to + 1) { /* sealed newest first */
    c->r[c->runs - 1].from = from;
    c->unsorted |= c->runs > 1;
    return 1;
  }
  if (c->runs == c->room) {
    u32 room = c->room ? 2 * c->room : 2;
    sealed_run *more = pentad_regrow(c->r, c->runs * sizeof(sealed_run), room * sizeof(sealed_run));
    if (!more) return 0;
    c->r = more;
    c->room = room;
  }
  if (c->runs) {
    c->r[c->runs - 1].to = last;
    c->unsorted |= last >= from;
  }
  c->r[c->runs++] = (sealed_run){from, to};
  c->last = sealed.upper | to;
  return 1;
}

/* Sorts runs and joins those that touch; runs that overlap are kept, so that who reads them sees it.
 * Shell's sort, by Ciura's steps. */
PENTAD_COLD static void sealed_sort_runs(sealed_chain *c) {
  static const u16 steps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
  sealed_run *r = c->r;
  for (u32 k = 0; k < sizeof steps / sizeof *steps; k++)
    for (u32 step = steps[k], i = step; i < c->runs; i++) {
      sealed_run x = r[i];
      u32 at = i;
      for (; at >= step && r[at - step].from > x.from; at -= step) r[at] = r[at - step];
      r[at] = x;
    }
  u32 n = 0;
  c->unsorted = 0;
  for (u32 i = 1; i < c->runs; i++) {
    c->unsorted |= r[i].from <= r[n].to;
    if (r[n].to + 1 == r[i].from)
      r[n].to = r[i].to;
    else
      r[++n] = r[i];
  }
  c->runs = n + 1;
  c->last = sealed.upper | r[n].to;
}

/* Ends the last run of each chain, and sorts what there is fuel for. */
static inline void sealed_end_runs(sealed_sum *s) {
  u32 left = SEALED_MAX_SORTED;
  for (sealed_chain *c = s->chains; c < s->chains + s->n; c++) {
    if (c->runs) c->r[c->runs - 1].to = (u32)c->last;
    if (!c->unsorted || c->runs > left) continue;
    left -= c->runs;
    sealed_sort_runs(c);
  }
}

/* The sums of a state that has some; 0 when there is no memory. */
static inline u128 *sealed_sums_of(sealed_sum *s) {
  if (!s->sums) {
    u32 size = sealed_n_sums() * sizeof(u128);
    s->sums = (u128 *)pentad_alloc(size);
    if (s->sums) __builtin_memset(s->sums, 0, size);
  }
  return s->sums;
}

static inline u128 sealed_load(const u8 *p, u32 width) {
  if (width == 8) return pentad_u64(p);
  if (width == 4) return (u32)pentad_i32(p);
  return (u128)pentad_u64(p + 8) << 64 | pentad_u64(p);
}

/* Whether there is room for a few numbers, which then need no further check. */
static inline u32 sealed_has_room(pentad_out *o) {
  if (o->end - o->at >= 64) return 1;
  o->full = 1;
  return 0;
}

static inline void sealed_put_uvarint(pentad_out *o, u64 v) {
  for (; v >= 128; v >>= 7) *o->at++ = (u8)(v | 128);
  *o->at++ = (u8)v;
}

/* How runs are written: SORTED ones by the gaps between them, others by signed steps, a BITMAP with a
 * bit for each number. Some thousand are sorted here; who reads more of them sorts them, as there is
 * no fuel for it. */
enum { SEALED_SORTED, SEALED_BITMAP, SEALED_UNSORTED };

static inline void sealed_put_list(pentad_out *o, const sealed_chain *c) {
  u64 next = 0;
  *o->at++ = c->unsorted ? SEALED_UNSORTED : SEALED_SORTED;
  sealed_put_uvarint(o, c->runs);
  for (u32 i = 0; i < c->runs && sealed_has_room(o); i++) {
    i64 step = (i64)(c->r[i].from - next);
    sealed_put_uvarint(o, c->unsorted ? (u64)step << 1 ^ (u64)(step >> 63) : (u64)step);
    sealed_put_uvarint(o, c->r[i].to - c->r[i].from);
    next = (u64)c->r[i].to + 1;
  }
}

static inline void sealed_put_bitmap(pentad_out *o, const sealed_chain *c, u64 span) {
  *o->at++ = SEALED_BITMAP;
  sealed_put_uvarint(o, c->r[0].from);
  sealed_put_uvarint(o, span);
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
static inline void sealed_put_runs(pentad_out *o, const sealed_chain *c) {
  u64 span = (u64)c->r[c->runs - 1].to - c->r[0].from + 1;
  if (!c->unsorted && c->runs > 16 && span / 8 < c->runs)
    sealed_put_bitmap(o, c, span);
  else
    sealed_put_list(o, c);
}

static inline u32 sealed_same_series(const sealed_chain *a, const sealed_chain *b) {
  return a->mid == b->mid && a->cid == b->cid && a->moid == b->moid;
}

/* Writes the chains of a state. */
static inline void sealed_put_chains(pentad_out *o, const sealed_sum *s) {
  const sealed_chain *c = s->chains, *end = c + s->n;
  u32 series = 0;
  for (u32 i = 0; i < s->n; i++) series += !i || !sealed_same_series(c + i, c + i - 1);
  if (!sealed_has_room(o)) return;
  sealed_put_uvarint(o, series);
  while (c < end) {
    u32 n = 1;
    while (c + n < end && sealed_same_series(c, c + n)) n++;
    if (!sealed_has_room(o)) return;
    __builtin_memcpy(o->at, &c->cid, 4);
    __builtin_memcpy(o->at + 4, &c->mid, 8);
    __builtin_memcpy(o->at + 12, &c->moid, 4);
    o->at += 16;
    sealed_put_uvarint(o, n);
    for (; n; n--, c++) {
      if (!sealed_has_room(o)) return;
      u32 key = (u32)(c->front >> 32);
      __builtin_memcpy(o->at, &c->id, 8);
      __builtin_memcpy(o->at + 8, &key, 4);
      o->at += 12;
      sealed_put_runs(o, c);
    }
  }
}

/* What partials of the layout begin with. */
static inline void sealed_front(u8 out[SEALED_FRONT], u32 extra) {
  u32 schema = sealed.schema.schema, check = sealed.schema.check;
  u8 front[SEALED_FRONT] = {1, (u8)((sealed_mac() ? SEALED_PARTIAL_MAC : 0) | extra), (u8)schema,
                            (u8)(schema >> 8), (u8)check, (u8)(check >> 8), (u8)(check >> 16)};
  __builtin_memcpy(out, front, sizeof front);
}

/* Writes a state as a partial: its size, or a status. */
static inline i32 sealed_put(pentad_out *o, sealed_sum *s) {
  sealed_end_runs(s);
  u8 *from = o->at;
  u8 front[SEALED_FRONT];
  sealed_front(front, 0);
  static const u128 nothing;
  if (sealed_has_room(o)) {
    pentad_put(o, front, sizeof front);
    sealed_put_uvarint(o, s->count);
    sealed_put_uvarint(o, s->deltas);
  }
  for (u32 i = 0; i < sealed.lanes; i++) pentad_put(o, s->sums ? s->sums + i : &nothing, sealed.widths[i]);
  for (u32 i = sealed.lanes; i < sealed.lanes + 2 * sealed.n_trends; i++)
    pentad_put(o, s->sums ? s->sums + i : &nothing, 16);
  for (u32 i = sealed.lanes + 2 * sealed.n_trends; i < sealed_n_sums(); i++)
    pentad_put(o, s->sums ? s->sums + i : &nothing, 12);
  sealed_put_chains(o, s);
  if (o->full)
    return pentad_fail(PENTAD_ECAP, "the list of the records is longer than a result may be; ask "
                                    "for fewer series, or a shorter time");
  return (i32)(o->at - from);
}

static inline u64 sealed_take_uvarint(pentad_in *in) {
  if (in->at < in->end && *in->at < 128) return *in->at++;
  u64 v = 0;
  for (u32 shift = 0; shift < 64 && in->at < in->end; shift += 7) {
    u8 b = *in->at++;
    v |= (u64)(b & 127) << shift;
    if (b < 128) return v;
  }
  in->cut = 1;
  return 0;
}

/* The runs of a chain: 0 when there is no memory. What is not what save writes makes in->cut. */
static inline u32 sealed_take_runs(pentad_in *in, sealed_chain *c) {
  u8 form = *pentad_take(in, 1);
  if (form == SEALED_SORTED || form == SEALED_UNSORTED) {
    u64 next = 0;
    for (u64 n = sealed_take_uvarint(in); n && !in->cut; n--) {
      u64 step = sealed_take_uvarint(in);
      if (form == SEALED_UNSORTED) step = step >> 1 ^ -(step & 1);
      u64 from = next + step, to = from + sealed_take_uvarint(in);
      if (!from || from > to || to > 0xffffffff) in->cut = 1;
      if (!in->cut && !sealed_add_run(c, (u32)from, (u32)to)) return 0;
      next = to + 1;
    }
    in->cut |= !c->runs;
    return 1;
  }
  u64 first = sealed_take_uvarint(in), n = sealed_take_uvarint(in);
  if (form != SEALED_BITMAP || !first || first > 0xffffffff || n > 0x100000000 - first) in->cut = 1;
  if (in->cut) return 1;
  const u8 *bits = pentad_take(in, (n + 7) / 8);
  for (u64 k = 0; k < n && !in->cut; k++)
    if (bits[k / 8] >> k % 8 & 1 && !sealed_add_run(c, (u32)(first + k), (u32)(first + k))) return 0;
  return 1;
}

/* The chains of a partial: 0 when there is no memory. An empty sum takes them as they are. */
static inline u32 sealed_take_chains(pentad_in *in, sealed_sum *s) {
  u64 series = sealed_take_uvarint(in);
  u32 fresh = !s->n, room = (u32)(in->end - in->at) / SEALED_SERIES + 1;
  if (room > series) room = (u32)series;
  if (fresh && room > s->room && !sealed_grow(s, room)) return 0;
  for (; series && !in->cut; series--) {
    const u8 *p = pentad_take(in, 16);
    if (in->cut) break;
    i32 cid = pentad_i32(p), moid = pentad_i32(p + 12);
    i64 mid = pentad_i64(p + 4);
    for (u64 n = sealed_take_uvarint(in); n && !in->cut; n--) {
      p = pentad_take(in, 12);
      if (in->cut) break;
      u64 id = pentad_u64(p), front = sealed_front_of((u32)pentad_i32(p + 8));
      sealed_chain *c = fresh ? sealed_new(s, mid, cid, moid, id, front)
                              : sealed_find(s, mid, cid, moid, id, front);
      if (!c || !sealed_take_runs(in, c)) return 0;
    }
  }
  return 1;
}

/* Takes what sealed_front makes. */
static inline void sealed_take_front(pentad_in *in, u32 extra) {
  u8 front[SEALED_FRONT];
  sealed_front(front, extra);
  for (u32 i = 0; i < sizeof front; i++) in->cut |= *pentad_take(in, 1) != front[i];
}

/* Adds a partial to a sum: 0 when there is no memory. What is not what sealed_put writes makes
 * in->cut. */
static inline u32 sealed_take(pentad_in *in, sealed_sum *s) {
  sealed_take_front(in, 0);
  s->count += sealed_take_uvarint(in);
  s->deltas += sealed_take_uvarint(in);
  u128 *sums = sealed_sums_of(s);
  if (!sums) return 0;
  for (u32 i = 0; i < sealed.lanes; i++) sums[i] += sealed_load(pentad_take(in, sealed.widths[i]), sealed.widths[i]);
  for (u32 i = sealed.lanes; i < sealed.lanes + 2 * sealed.n_trends; i++) sums[i] += sealed_load(pentad_take(in, 16), 16);
  if (sealed_mac()) {
    u128 *mac = sums + sealed.lanes + 2 * sealed.n_trends, part[2] = {0, 0};
    __builtin_memcpy(&part[0], pentad_take(in, 12), 12);
    __builtin_memcpy(&part[1], pentad_take(in, 12), 12);
    u128 sum = mac[0] + part[0];
    mac[0] = sum & (((u128)1 << 96) - 1);
    mac[1] += part[1] + (sum >> 96);
  }
  return sealed_take_chains(in, s);
}

/* The status of a load that came to its end. */
static inline i32 sealed_loaded(const pentad_in *in) {
  return in->cut || in->at != in->end ? pentad_fail(SEALED_EPARTIAL, "a saved sum is damaged")
                                      : PENTAD_OK;
}

/* A result that differs in size: its size, which is filled in when it is written, and what comes up
 * to a multiple of 4. */
static inline u8 *sealed_frame(pentad_out *o) {
  u32 size = 0;
  u8 *front = o->at;
  pentad_put(o, &size, 4);
  return front;
}

static inline i32 sealed_framed(pentad_out *o, u8 *front, i32 written) {
  if (written < 0) return written;
  pentad_put(o, "\0\0\0", -(u32)written & 3);
  if (o->full) return PENTAD_ECAP;
  __builtin_memcpy(front, &written, 4);
  return PENTAD_OK;
}

#endif
