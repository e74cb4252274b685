/* sealed_rows.h: adds the rows of a batch to sums. Most rows go on where one before them ended: they
 * are the next of the same chain, or, where devices come in turn, of the chain that came next the
 * last time. Such a row has the header and the series that are expected, bit by bit, so it is of the
 * schema, and extends a run. Every other row is looked at by itself.
 *
 * Of rows that come as a series r, that is compared once; where r is 0, columns have it.
 *
 * A row that corrects another is never expected, nor is one behind the last sequence number.
 */
#ifndef SEALED_ROWS_H
#define SEALED_ROWS_H

#include <wasm_simd128.h>

#include "sealed_sum.h"

enum { SEALED_STEP = 8 }; /* rows that are compared at once */

/* A loop is a function by itself: in a large one the host keeps little in registers. Of each there are
 * forms for what is common, which the compiler must not make one of. */
#define SEALED_LOOP __attribute__((noinline)) static
#define SEALED_FORM __attribute__((always_inline)) static inline

/* The square of a number, of 128 bits. */
static inline u128 sealed_square(i64 v) {
  u64 n = v < 0 ? -(u64)v : (u64)v, low = (u32)n, high = n >> 32;
  return ((u128)(high * high) << 64) + ((u128)(low * high) << 33) + low * low;
}

/* Adds the time of a record, in units and rounded down, to the sums of a trend. */
static inline void sealed_add_time(u128 *out, u32 trend, i64 cap) {
  i64 ns = (i64)((u64)cap - (u64)sealed.trends[trend].origin), unit = sealed.trends[trend].unit;
  i64 n = ns / unit;
  n -= ns % unit < 0;
  out[0] += (u128)(i128)n;
  out[1] += sealed_square(n);
}

/* Adds a MAC to two sums of 96 bits, so that nothing is lost of 192. */
static inline void sealed_add_mac(u128 *out, const u8 *p) {
  const u128 ones = ((u128)1 << 96) - 1;
  u128 mac = sealed_load(p, 16), sum = out[0] + (mac & ones);
  out[0] = sum & ones;
  out[1] += (sum >> 96) + (mac >> 96);
}

/* Adds what n payloads have behind their headers, lane by lane; of a record that corrects by
 * difference, no time. A lane of up to 8 bytes is added modulo 2^64. */
SEALED_LOOP void sealed_add_lanes(u128 *sums, const u8 *p, u32 n, u32 stride, const i64 *cap,
                                    u32 delta) {
  const u8 *at = p + SEALED_HEADER, *row;
  u32 k, trend = 0;
  for (u32 i = 0; i < sealed.lanes; at += sealed.widths[i++]) {
    u64 sum = 0, upper = 0;
    if (sealed.widths[i] == 8)
      for (k = 0, row = at; k < n; k++, row += stride) sum += pentad_u64(row);
    else if (sealed.widths[i] == 4)
      for (k = 0, row = at; k < n; k++, row += stride) sum += (u32)pentad_i32(row);
    else
      for (k = 0, row = at; k < n; k++, row += stride) {
        u64 more = SEALED_NOW(u64, row + 8), lower = pentad_u64(row);
        sum += lower;
        upper += more + (sum < lower);
      }
    sums[i] += (u128)upper << 64 | sum;
    if (!sealed.is_trend[i]) continue;
    for (k = 0; k < n && !delta; k++) sealed_add_time(sums + sealed.lanes + 2 * trend, trend, cap[k]);
    trend++;
  }
  if (!sealed_mac()) return;
  row = p + sealed.schema.prefix - 16;
  for (k = 0; k < n; k++, row += stride) sealed_add_mac(sums + sealed.lanes + 2 * sealed.n_trends, row);
}

/* Adds one row of any kind; a status. */
SEALED_LOOP i32 sealed_add_row(sealed_sum *s, const pentad_batch *b, const pentad_series *r, u32 i) {
  u32 size;
  const u8 *p = pentad_payload(b, i, &size);
  if (!sealed_is(&sealed.schema, p, size)) return sealed_other(&sealed.schema, p, size, i);
  u32 seq = sealed_seq_of(p), delta = sealed_flags_of(p) & SEALED_DELTA;
  u64 id = sealed_chain_of(p), front = pentad_u64(p);
  sealed_chain *c = r ? sealed_find(s, r->mid, r->cid, r->moid, id, front)
                      : sealed_find(s, b->mid[i], b->cid[i], b->moid[i], id, front);
  u128 *sums = c && sealed_add_run(c, seq, seq) ? sealed_sums_of(s) : 0;
  if (!sums) return sealed_no_memory();
  s->deltas += delta != 0;
  s->count += !delta;
  sealed_add_lanes(sums, p, 1, 0, b->cap + i, delta);
  return PENTAD_OK;
}

/* Two words that are read where this is written and not later; as pentad_f64_first. */
static inline v128_t sealed_first(const void *p) {
  typedef v128_t loose __attribute__((aligned(1)));
  return *(const volatile loose *)p;
}

#define SEALED_DIFFER(d, p, expected) d = wasm_v128_or(d, wasm_v128_xor(wasm_v128_load(p), expected))

/* What of the series of eight rows differs from that of a chain. */
#define SEALED_DIFFERS(d)                                                                          \
  do {                                                                                             \
    d = wasm_v128_xor(sealed_first(mid + 6), mids);                                                \
    SEALED_DIFFER(d, mid, mids);                                                                   \
    SEALED_DIFFER(d, mid + 2, mids);                                                               \
    SEALED_DIFFER(d, mid + 4, mids);                                                               \
    d = wasm_v128_or(d, wasm_v128_xor(sealed_first(cid + 4), cids));                               \
    SEALED_DIFFER(d, cid, cids);                                                                   \
    d = wasm_v128_or(d, wasm_v128_xor(sealed_first(moid + 4), moids));                             \
    SEALED_DIFFER(d, moid, moids);                                                                 \
  } while (0)

/* One of eight rows: bytes 16 to 31 of its payload, of which the lower half has the sequence number and
 * the upper one may be a lane, and the 16 before them. */
#define SEALED_ROW(two, k)                                                                         \
  do {                                                                                             \
    v128_t v = two;                                                                                \
    words = wasm_v128_or(words, wasm_v128_xor(v, word));                                           \
    word = wasm_i64x2_add(word, one);                                                              \
    added = wasm_i64x2_add(added, v);                                                              \
    SEALED_DIFFER(d, p + (k) * stride, front);                                                     \
  } while (0)

static inline u32 sealed_of_series(const sealed_chain *c, const pentad_series *r) {
  return c->mid == r->mid && c->cid == r->cid && c->moid == r->moid;
}

/* Adds rows from i on that are the next ones of the chain of the last row, eight at a time; how many.
 * All payloads have a stride, of at least those of the schema. */
SEALED_FORM u32 sealed_go_on(sealed_sum *s, const pentad_batch *b, const pentad_series *r, u32 i,
                             u32 to, const u32 stride) {
  sealed_chain *c = sealed_at(s, s->last);
  if (r && !sealed_of_series(c, r)) return 0;
  u32 left = 0xffffffff - (u32)c->last, k = 0;
  u32 n = (to - i < left ? to - i : left) & ~(u32)(SEALED_STEP - 1);
  const u8 *p = b->data + (u64)i * stride;
  const i64 *mid = r ? 0 : b->mid + i;
  const i32 *cid = r ? 0 : b->cid + i, *moid = r ? 0 : b->moid + i;
  v128_t front = wasm_v128_load(&c->front), word = wasm_i64x2_make((i64)c->last + 1, 0);
  v128_t one = wasm_i64x2_make(1, 0), lower = wasm_i64x2_make(-1, 0), sum = wasm_i64x2_splat(0);
  v128_t mids = wasm_i64x2_splat(c->mid), cids = wasm_i32x4_splat(c->cid);
  v128_t moids = wasm_i32x4_splat(c->moid);
  for (; k < n; k += SEALED_STEP, mid += SEALED_STEP, cid += SEALED_STEP, moid += SEALED_STEP) {
    v128_t d = wasm_i64x2_splat(0);
    if (!r) SEALED_DIFFERS(d);
    v128_t last = sealed_first(p + 7 * stride + 16), words = wasm_i64x2_splat(0), added = sum;
    SEALED_ROW(wasm_v128_load(p + 16), 0);
    SEALED_ROW(wasm_v128_load(p + stride + 16), 1);
    SEALED_ROW(wasm_v128_load(p + 2 * stride + 16), 2);
    SEALED_ROW(wasm_v128_load(p + 3 * stride + 16), 3);
    SEALED_ROW(wasm_v128_load(p + 4 * stride + 16), 4);
    SEALED_ROW(wasm_v128_load(p + 5 * stride + 16), 5);
    SEALED_ROW(wasm_v128_load(p + 6 * stride + 16), 6);
    SEALED_ROW(last, 7);
    if (wasm_v128_any_true(wasm_v128_or(d, wasm_v128_and(words, lower)))) break;
    sum = added;
    p += SEALED_STEP * stride;
  }
  if (!k) return 0;
  c->last += k;
  s->count += k;
  if (sealed.lean)
    *(u64 *)s->sums += (u64)wasm_i64x2_extract_lane(sum, 1);
  else
    sealed_add_lanes(s->sums, b->data + (u64)i * stride, k, stride, b->cap + i, 0);
  return k;
}

/* Adds rows from i on of which each is the next one of the chain of the row before it, or of the chain
 * that followed that one the last time; how many. Behind some rows it ends, if payloads are dense, where
 * a step of rows seems to be of one chain.
 *
 * There is one access that the host checks for each thing that is looked at: the highest of its
 * fields, read first and in the block in which the others are. */
SEALED_FORM u32 sealed_in_turn(sealed_sum *s, const pentad_batch *b, const pentad_series *r,
                               const u32 i, u32 to, u32 some, const u32 dense, const u32 lean) {
  const u32 stride = b->stride, prefix = sealed.schema.prefix;
  const u8 *p = b->data + (u64)i * stride, *chains = (const u8 *)s->chains;
  const i64 *mid = r ? 0 : b->mid + i;
  const i32 *cid = r ? 0 : b->cid + i, *moid = r ? 0 : b->moid + i;
  sealed_chain *c = sealed_at(s, s->last);
  u128 *sums = s->sums;
  u64 lane = 0;
  u32 k = 0;
  for (u32 n = to - i, begins = 1; k < n; k++) {
    if (!dense) {
      u32 size;
      p = pentad_payload(b, i + k, &size);
      if (size < prefix) break;
    }
    u64 value = SEALED_NOW(u64, p + 24), word = SEALED_NOW(u64, p + 16), id = SEALED_NOW(u64, p + 8);
    u64 front = SEALED_NOW(u64, p);
    u32 follow = SEALED_NOW(u32, &c->follow);
    sealed_chain *next = c;
    if (id != c->id) { /* a branch: it is mostly foreseen, and what is read next need not wait */
      __asm__("" : "+r"(follow));
      next = (sealed_chain *)(chains + follow);
      begins = 1;
    } else if (begins) {
      begins = 0;
      if (!r && dense && k >= some && n - k > SEALED_STEP && mid[SEALED_STEP - 1] == c->mid) break;
    }
    u64 last = SEALED_NOW(u64, &next->last) + 1;
    u64 differs = (word ^ last) | (id ^ next->id) | (front ^ next->front) | !(u32)last;
    if (r)
      differs |= !sealed_of_series(next, r);
    else
      differs |= (u64)(*mid++ ^ next->mid) | (u32)(*cid++ ^ next->cid) | (u32)(*moid++ ^ next->moid);
    next->last = last;
    if (differs) {
      next->last = last - 1;
      break;
    }
    if (lean)
      lane += value;
    else
      sealed_add_lanes(sums, p, 1, 0, b->cap + i + k, 0);
    c = next;
    if (dense) p += stride;
  }
  s->last = (u32)((const u8 *)c - chains);
  s->count += k;
  *(u64 *)sums += lane;
  return k;
}

SEALED_LOOP u32 sealed_go_on_32(sealed_sum *s, const pentad_batch *b, u32 i, u32 to) {
  return sealed_go_on(s, b, 0, i, to, 32);
}

SEALED_LOOP u32 sealed_go_on_any(sealed_sum *s, const pentad_batch *b, u32 i, u32 to) {
  return sealed_go_on(s, b, 0, i, to, b->stride);
}

SEALED_LOOP u32 sealed_in_turn_lean(sealed_sum *s, const pentad_batch *b, u32 i, u32 to, u32 some) {
  return sealed_in_turn(s, b, 0, i, to, some, 1, 1);
}

SEALED_LOOP u32 sealed_in_turn_dense(sealed_sum *s, const pentad_batch *b, u32 i, u32 to, u32 some) {
  return sealed_in_turn(s, b, 0, i, to, some, 1, 0);
}

SEALED_LOOP u32 sealed_in_turn_any(sealed_sum *s, const pentad_batch *b, u32 i, u32 to) {
  return sealed_in_turn(s, b, 0, i, to, 0, 0, 0);
}

/* Adds rows that come as expected; how many. */
static inline u32 sealed_add_expected(sealed_sum *s, const pentad_batch *b, u32 i, u32 to) {
  if (b->stride < sealed.schema.prefix) return sealed_in_turn_any(s, b, i, to);
  u32 n = 0;
  if (to - i >= SEALED_STEP)
    n = b->stride == 32 ? sealed_go_on_32(s, b, i, to) : sealed_go_on_any(s, b, i, to);
  u32 some = n ? 0 : SEALED_STEP;
  return n + (sealed.lean ? sealed_in_turn_lean(s, b, i + n, to, some)
                          : sealed_in_turn_dense(s, b, i + n, to, some));
}

SEALED_LOOP u32 sealed_series_32(sealed_sum *s, const pentad_batch *b, const pentad_series *r, u32 i,
                                 u32 to) {
  __builtin_assume(r != 0);
  return sealed_go_on(s, b, r, i, to, 32);
}

SEALED_LOOP u32 sealed_series_any(sealed_sum *s, const pentad_batch *b, const pentad_series *r, u32 i,
                                  u32 to) {
  __builtin_assume(r != 0);
  return sealed_go_on(s, b, r, i, to, b->stride);
}

SEALED_LOOP u32 sealed_series_lean(sealed_sum *s, const pentad_batch *b, const pentad_series *r, u32 i,
                                   u32 to) {
  __builtin_assume(r != 0);
  return sealed_in_turn(s, b, r, i, to, 0, 1, 1);
}

SEALED_LOOP u32 sealed_series_few(sealed_sum *s, const pentad_batch *b, const pentad_series *r, u32 i,
                                  u32 to) {
  __builtin_assume(r != 0);
  return sealed_in_turn(s, b, r, i, to, 0, 0, 0);
}

/* Adds rows of a series that come as expected; how many. The first one goes on in the last chain, or
 * in the one that followed it the last time. */
static inline u32 sealed_add_series(sealed_sum *s, const pentad_batch *b, const pentad_series *r,
                                    u32 i, u32 to) {
  sealed_chain *c = sealed_at(s, s->last);
  if (!sealed_of_series(c, r) && sealed_of_series(sealed_at(s, c->follow), r)) s->last = c->follow;
  u32 dense = b->stride >= sealed.schema.prefix, n = 0;
  if (dense && to - i >= SEALED_STEP)
    n = b->stride == 32 ? sealed_series_32(s, b, r, i, to) : sealed_series_any(s, b, r, i, to);
  if (n) return n;
  if (to - i > SEALED_STEP) to = i + SEALED_STEP;
  return dense && sealed.lean ? sealed_series_lean(s, b, r, i, to) : sealed_series_few(s, b, r, i, to);
}

/* Adds rows of one sum; a status. */
static inline i32 sealed_add_rows(sealed_sum *s, const pentad_batch *b, const pentad_series *r, u32 i,
                                  u32 to) {
  while (i < to) {
    u32 n = 0;
    if (s->sums && s->n) n = r ? sealed_add_series(s, b, r, i, to) : sealed_add_expected(s, b, i, to);
    i += n;
    if (n) continue;
    i32 status = sealed_add_row(s, b, r, i++);
    if (status) return status;
  }
  return PENTAD_OK;
}

/* Adds a batch to the sums of its groups; a status. */
static inline i32 sealed_add_batch(sealed_sum *sums, const pentad_batch *b) {
  i32 status = PENTAD_OK;
  if (b->series) {
    for (pentad_series_rows r = {0}; !status && pentad_next_series(b, &r);)
      status = sealed_add_rows(sums + r.gid, b, b->series + r.series, r.from, r.to);
    return status;
  }
  if (!b->runs)
    for (u32 i = 0; i < b->n && !status; i++)
      status = sealed_add_rows(sums + (b->gid ? b->gid[i] : 0), b, 0, i, i + 1);
  for (u32 r = 0, from = 0; r < b->n_runs && !status; from = b->runs[r++].end)
    status = sealed_add_rows(sums + b->runs[r].gid, b, 0, from, b->runs[r].end);
  return status;
}

#endif
