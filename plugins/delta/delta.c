/* delta: what a register that counts upwards has counted, over resets, roll-overs and exchanges.
 *
 * Rows come in no order, so a state keeps all readings of its series, sorted by cap in chunks, and
 * adds up the steps between them when it is finished. The step to the first one starts at the
 * preceding reading, which is in the predecessor of the state: pentad_link_predecessor takes it.
 */
#include "columns.h"

enum { MAX_READINGS = 50000, MIN_ROOM = 4, MAX_ROOM = 128, ROOMS = 6, SLAB = 1 << 16,
       ESERIES = -100, EREADINGS = -101, EVERSIONS = -102 };

typedef struct { i64 cap; f64 x; } reading;

/* Readings that ascend; there are always some. */
typedef struct chunk { u32 used, room; reading r[]; } chunk;

typedef struct {
  i64 mid;
  i32 cid, moid;
  u64 invalid;
  reading preceding;
  u32 named; /* whether mid, cid and moid are those of a row */
  u32 has_preceding;
  u32 readings, chunks, room, at; /* room of many; at: the chunk that got the last reading */
  union { chunk *only; chunk **many; }; /* many from two chunks on */
} state;

typedef struct {
  f64 consumption;
  u64 readings;
  i64 from_cap;
  f64 from;
  i64 to_cap;
  f64 to;
  u64 resets, rollovers, exchanges;
  f64 fell;
  u64 invalid;
} result;

typedef struct { i32 cid, moid; i64 mid; u64 invalid; reading r[]; } saved;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_CAP | PENTAD_CID |
                  PENTAD_MID | PENTAD_MOID,
              sizeof(state), 8, sizeof(result), 32, PENTAD_GROWS | PENTAD_LINKS_PREDECESSORS,
              "delta",
              "{\"name\":\"delta\",\"version\":\"1\","
              "\"about\":\"what a register counted: sum of its steps, over resets and roll-overs\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"modulus\",\"type\":\"f64\",\"default\":\"0\",\"min\":\"0\","
              "\"help\":\"the register rolls over to 0 here; 0: it does not\"},"
              "{\"name\":\"max_step\",\"type\":\"f64\",\"default\":\"0\",\"min\":\"0\","
              "\"help\":\"the greatest plausible step between two readings; 0: any\"}],\"result\":["
              "{\"name\":\"consumption\",\"type\":\"f64\",\"fold\":\"sum\"},"
              "{\"name\":\"readings\",\"type\":\"u64\",\"fold\":\"sum\"},"
              "{\"name\":\"from_cap\",\"type\":\"time\",\"fold\":\"first\"},"
              "{\"name\":\"from\",\"type\":\"f64\",\"fold\":\"same\"},"
              "{\"name\":\"to_cap\",\"type\":\"time\",\"fold\":\"last\"},"
              "{\"name\":\"to\",\"type\":\"f64\",\"fold\":\"same\"},"
              "{\"name\":\"resets\",\"type\":\"u64\",\"fold\":\"sum\"},"
              "{\"name\":\"rollovers\",\"type\":\"u64\",\"fold\":\"sum\"},"
              "{\"name\":\"exchanges\",\"type\":\"u64\",\"fold\":\"sum\"},"
              "{\"name\":\"fell\",\"type\":\"f64\",\"fold\":\"sum\"},"
              "{\"name\":\"invalid\",\"type\":\"u64\",\"fold\":\"sum\"}]}")

static pentad_field field;
static f64 modulus, max_step;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 32)
    return pentad_bad_params("type, offset, modulus and max_step must have 32 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  modulus = pentad_f64(params + 16);
  max_step = pentad_f64(params + 24);
  if (!(modulus >= 0) || modulus - modulus != 0)
    return pentad_bad_params("modulus must be a number from 0 on");
  if (!(max_step >= 0) || max_step - max_step != 0)
    return pentad_bad_params("max_step must be a number from 0 on");
  if (modulus && max_step >= modulus)
    return pentad_bad_params("max_step must be below modulus: no longer step can be told");
  return pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++) s[i] = (state){0};
}

PENTAD_COLD static i32 two_series(void) {
  pentad_message_len = 0;
  pentad_say("a group has readings of two series; group by cid, mid and moid, or choose a box of "
             "one series");
  return ESERIES;
}

PENTAD_COLD static i32 too_many(void) {
  pentad_message_len = 0;
  pentad_say("a group has more than ");
  pentad_say_u32(MAX_READINGS);
  pentad_say(" readings; ask for shorter windows, or a shorter time");
  return EREADINGS;
}

PENTAD_COLD static i32 two_versions(void) {
  pentad_message_len = 0;
  pentad_say("a series has two readings of one cap; ask for the latest versions, or as of a time");
  return EVERSIONS;
}

PENTAD_COLD static i32 no_memory(void) {
  pentad_message_len = 0;
  pentad_say("there are more readings than memory; ask for fewer series, or a shorter time");
  return PENTAD_ENOMEM;
}

/* Chunks that are free, by their room, and what is left of the memory of which new ones are cut. */
static chunk *free_chunks[ROOMS];
static u8 *slab;
static u32 slab_left;

static inline u32 class_of(u32 room) { return (u32)__builtin_ctz(room / MIN_ROOM); }

static void *cut(u32 size) {
  if (slab_left < size) {
    slab = (u8 *)pentad_alloc(SLAB);
    if (!slab) return 0;
    slab_left = SLAB;
  }
  slab_left -= size;
  slab += size;
  return slab - size;
}

static chunk *new_chunk(u32 room) {
  chunk *c = free_chunks[class_of(room)];
  if (c)
    __builtin_memcpy(&free_chunks[class_of(room)], c->r, sizeof c);
  else if (!(c = cut(sizeof(chunk) + room * sizeof(reading))))
    return 0;
  c->used = 0;
  c->room = room;
  return c;
}

static void free_chunk(chunk *c) {
  __builtin_memcpy(c->r, &free_chunks[class_of(c->room)], sizeof c);
  free_chunks[class_of(c->room)] = c;
}

static inline chunk **chunks_of(state *s) { return s->chunks > 1 ? s->many : &s->only; }

/* Puts a chunk at a place among those of a state; 0 when there is no memory. */
static u32 place_chunk(state *s, u32 at, chunk *c) {
  if (s->chunks == 0) {
    s->only = c;
    s->chunks = 1;
    return 1;
  }
  chunk **list = chunks_of(s);
  if (s->chunks == 1 || s->chunks == s->room) {
    u32 room = s->chunks == 1 ? MIN_ROOM : 2 * s->room;
    chunk **more = cut(room * sizeof(chunk *) + 7 & ~7u);
    if (!more) return 0;
    __builtin_memcpy(more, list, s->chunks * sizeof(chunk *));
    s->many = list = more;
    s->room = room;
  }
  __builtin_memmove(list + at + 1, list + at, (s->chunks - at) * sizeof(chunk *));
  list[at] = c;
  s->chunks++;
  return 1;
}

/* The chunk in which a cap lies or belongs. */
static inline u32 chunk_for(state *s, chunk **list, i64 cap) {
  u32 at = s->at;
  if ((at == 0 || cap >= list[at]->r[0].cap) &&
      (at + 1 == s->chunks || cap < list[at + 1]->r[0].cap))
    return at;
  u32 low = 0, high = s->chunks;
  while (high - low > 1) {
    u32 mid = (low + high) / 2;
    if (list[mid]->r[0].cap <= cap)
      low = mid;
    else
      high = mid;
  }
  return low;
}

/* Makes room in chunk at for a reading at a place in it, both of which may change; 0 when there is
 * no memory. A full chunk is divided, but for readings that come in order behind the last.
 */
static chunk *make_room(state *s, u32 *at, u32 *place) {
  chunk *c = chunks_of(s)[*at];
  u32 half = *place == c->used && *at + 1 == s->chunks ? c->used : c->used / 2;
  chunk *more = new_chunk(c->room < MAX_ROOM ? 2 * c->room : MAX_ROOM);
  if (!more) return 0;
  if (c->room < MAX_ROOM) {
    __builtin_memcpy(more->r, c->r, c->used * sizeof(reading));
    more->used = c->used;
    chunks_of(s)[*at] = more;
    free_chunk(c);
    return more;
  }
  __builtin_memcpy(more->r, c->r + half, (c->used - half) * sizeof(reading));
  more->used = c->used - half;
  c->used = half;
  if (!place_chunk(s, *at + 1, more)) return 0;
  if (*place < half || (*place == half && more->used)) return c;
  *place -= half;
  ++*at;
  return more;
}

static i32 insert(state *s, reading r) {
  if (s->readings == MAX_READINGS) return too_many();
  if (!s->chunks) {
    chunk *c = new_chunk(MIN_ROOM);
    if (!c || !place_chunk(s, 0, c)) return no_memory();
  }
  chunk **list = chunks_of(s);
  u32 at = chunk_for(s, list, r.cap);
  chunk *c = list[at];
  u32 low = 0, high = c->used;
  if (high && c->r[high - 1].cap < r.cap) low = high;
  while (low < high) {
    u32 mid = (low + high) / 2;
    if (c->r[mid].cap < r.cap)
      low = mid + 1;
    else
      high = mid;
  }
  if (low < c->used && c->r[low].cap == r.cap) return two_versions();
  if (c->used == c->room && !(c = make_room(s, &at, &low))) return no_memory();
  __builtin_memmove(c->r + low + 1, c->r + low, (c->used - low) * sizeof(reading));
  c->r[low] = r;
  c->used++;
  s->at = at;
  s->readings++;
  return PENTAD_OK;
}

/* Whether a row is of the series of a state. */
static inline u32 same_series(state *s, i32 cid, i64 mid, i32 moid) {
  if (s->named) return s->cid == cid && s->mid == mid && s->moid == moid;
  s->named = 1;
  s->cid = cid;
  s->mid = mid;
  s->moid = moid;
  return 1;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status;
  const f64 *x = pentad_numbers(b, &field, &status);
  if (status) return status;
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    state *s = states + r.gid;
    for (u32 i = r.from; i < r.to; i++) {
      if (!same_series(s, b->cid[i], b->mid[i], b->moid[i])) return two_series();
      if (x[i] - x[i] != 0) {
        s->invalid++;
        continue;
      }
      status = insert(s, (reading){b->cap[i], x[i]});
      if (status) return status;
    }
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_save) i32 pentad_save(state *s, saved *out, u32 room) {
  u32 size = sizeof(saved) + s->readings * sizeof(reading);
  if (!s->named) return 0;
  if (size > room) return PENTAD_ECAP;
  *out = (saved){s->cid, s->moid, s->mid, s->invalid};
  reading *to = out->r;
  for (u32 i = 0; i < s->chunks; i++) {
    chunk *c = chunks_of(s)[i];
    __builtin_memcpy(to, c->r, c->used * sizeof(reading));
    to += c->used;
  }
  return (i32)size;
}

/* A state that is written anew, chunk by chunk, as many readings as are left. */
typedef struct { state *s; reading *next, *end; u32 left; } writer;

PENTAD_COLD static u32 next_chunk(writer *w) {
  u32 room = MIN_ROOM;
  while (room < w->left && room < MAX_ROOM) room *= 2;
  chunk *c = new_chunk(room);
  if (!c || !place_chunk(w->s, w->s->chunks, c)) return 0;
  c->used = w->left < room ? w->left : room;
  w->left -= c->used;
  w->next = c->r;
  w->end = c->r + c->used;
  return 1;
}

static u32 copy_rest(writer *w, const reading *from, u32 n) {
  while (n) {
    if (w->next == w->end && !next_chunk(w)) return 0;
    u32 room = (u32)(w->end - w->next), k = n < room ? n : room;
    __builtin_memcpy(w->next, from, k * sizeof(reading));
    w->next += k;
    from += k;
    n -= k;
  }
  return 1;
}

/* Merges until one of three has no more: own, in, or the chunk that is written; or two caps are the
 * same. Returns own. A turn of this loop has to be cheap, for a state has many readings.
 */
static __attribute__((noinline)) const reading *merge_run(writer *w, const reading *own,
                                                          const reading *own_end,
                                                          const reading **other,
                                                          const reading *in_end) {
  const reading *in = *other;
  reading *to = w->next, *to_end = w->end;
  while (to < to_end && own < own_end && in < in_end && own->cap != in->cap) {
    u32 first = own->cap < in->cap;
    wasm_v128_store(to++, wasm_v128_load(first ? own : in));
    own += first;
    in += 1 - first;
  }
  w->next = to;
  *other = in;
  return own;
}

/* Merges readings that ascend into a state, whose own chunks are freed on the way. */
static i32 merge(state *s, const reading *in, u32 n) {
  state old = *s;
  chunk **list = chunks_of(&old);
  const reading *in_end = in + n;
  s->chunks = s->at = 0;
  s->readings += n;
  writer w = {.s = s, .left = s->readings};
  for (u32 i = 0; i < old.chunks; i++) {
    chunk *c = list[i];
    const reading *own = c->r, *own_end = own + c->used;
    while (own < own_end && in < in_end) {
      if (w.next == w.end && !next_chunk(&w)) return no_memory();
      own = merge_run(&w, own, own_end, &in, in_end);
      if (own < own_end && in < in_end && own->cap == in->cap) return two_versions();
    }
    if (!copy_rest(&w, own, (u32)(own_end - own))) return no_memory();
    free_chunk(c);
  }
  return copy_rest(&w, in, (u32)(in_end - in)) ? PENTAD_OK : no_memory();
}

PENTAD_EXPORT(pentad_load) i32 pentad_load(state *s, const saved *in, u32 size) {
  if (!size) return PENTAD_OK;
  u32 n = (size - (u32)sizeof(saved)) / sizeof(reading);
  if (size < sizeof(saved) || size != sizeof(saved) + n * sizeof(reading)) return PENTAD_EPAYLOAD;
  for (u32 i = 1; i < n; i++)
    if (in->r[i].cap <= in->r[i - 1].cap) return PENTAD_EPAYLOAD;
  if (!same_series(s, in->cid, in->mid, in->moid)) return two_series();
  if (n > MAX_READINGS - s->readings) return too_many();
  s->invalid += in->invalid;
  return n ? merge(s, in->r, n) : PENTAD_OK;
}

PENTAD_EXPORT(pentad_link_predecessor)
i32 pentad_link_predecessor(state *s, state *predecessor) {
  state *p = predecessor;
  if (p->named && !same_series(s, p->cid, p->mid, p->moid)) return two_series();
  if (p->readings) {
    chunk *c = chunks_of(p)[p->chunks - 1];
    s->preceding = c->r[c->used - 1];
    s->has_preceding = 1;
  } else {
    s->preceding = p->preceding;
    s->has_preceding = p->has_preceding;
  }
  return PENTAD_OK;
}

/* A step from a to b that is not just a rise. README.md has the rule. */
PENTAD_COLD static void odd_step(result *r, f64 a, f64 b) {
  f64 rise = b - a;
  if (rise > 0) {
    r->exchanges++;
    return;
  }
  f64 most = max_step ? max_step : modulus / 2;
  if (modulus && a < modulus && b >= 0 && rise + modulus <= most) {
    r->consumption += rise + modulus;
    r->rollovers++;
    return;
  }
  r->fell -= rise;
  if (b >= 0 && b <= max_step) {
    r->consumption += b;
    r->resets++;
  } else {
    r->exchanges++;
  }
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(state *s, u32 n, result *out, u32 room) {
  if (room / sizeof(result) < n) return PENTAD_ECAP;
  f64 most = max_step ? max_step : __builtin_inf();
  for (u32 k = 0; k < n; k++, s++) {
    result r = {.readings = s->readings, .invalid = s->invalid, .from = __builtin_nan(""),
                .to = __builtin_nan("")};
    reading last = s->has_preceding || !s->readings ? s->preceding : chunks_of(s)[0]->r[0];
    if (s->readings) r.from_cap = last.cap, r.from = last.x;
    for (u32 i = 0; i < s->chunks; i++) {
      chunk *c = chunks_of(s)[i];
      for (u32 j = 0; j < c->used; j++) {
        f64 x = c->r[j].x, rise = x - last.x;
        if (rise >= 0 && rise <= most)
          r.consumption += rise;
        else
          odd_step(&r, last.x, x);
        last.x = x;
      }
      last.cap = c->r[c->used - 1].cap;
    }
    if (s->readings) r.to_cap = last.cap, r.to = last.x;
    out[k] = r;
  }
  return (i32)(n * sizeof(result));
}
