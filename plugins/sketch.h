/* sketch.h: how numbers are distributed, in counts per bin, so that quantiles can be told with a
 * bounded relative error.
 *
 * A bin is the numbers whose f64 begin with the same bits: at level 0, sign, exponent and 7 bits of
 * the fraction, at each further level one bit less. A sketch has 1,024 bins and the lowest level at
 * which they reach from its least to its greatest magnitude, of either sign. So it is the same
 * whatever the order of adding and merging, bit by bit.
 */
#ifndef SKETCH_H
#define SKETCH_H

/* A record may join all bins of its group, for which the first rows of a batch have fuel. */
#define PENTAD_MAX_BATCH 256

#include "columns.h"

enum { SKETCH_BINS = 1024, SKETCH_BITS = 7, SKETCH_DROP = 52 - SKETCH_BITS };
enum { POSITIVE, NEGATIVE, SIDES, SKETCH_EFULL = -100 };

/* Positive numbers have bins from the front on, negative ones from the back. Beyond the last on
 * either end there is one that stays empty.
 */
typedef struct {
  u64 nans, zeros, infinities[SIDES];
  f64 min, max;
  u32 level, first[SIDES], used[SIDES], full;
  u32 empty, bins[SKETCH_BINS], empty_too;
} sketch;

#define SKETCH_FINITE 0x7ff0000000000000ull
#define SKETCH_NORMAL 0x0010000000000000ull

static void sketch_reset(sketch *s) {
  *s = (sketch){.min = __builtin_inf(), .max = -__builtin_inf()};
}

static inline u32 *sketch_bin(sketch *s, u32 side, u32 i) {
  return s->bins + (side == POSITIVE ? i : SKETCH_BINS - 1 - i);
}

/* Adds to a bin; what does not fit is remembered. */
static inline void sketch_count(sketch *s, u32 *bin, u32 n) {
  *bin += n;
  if (*bin < n) s->full = 1;
}

PENTAD_COLD static i32 sketch_status(u32 full) {
  if (!full) return PENTAD_OK;
  pentad_message_len = 0;
  pentad_say("a group has more than 4294967295 numbers in one bin; "
             "group by less, or narrow the box");
  return SKETCH_EFULL;
}

/* Sums of neighbours among eight bins. What overflows is remembered as all ones. */
static inline void sketch_halve_eight(const u32 *from, u32 *to, v128_t *over) {
  v128_t a = wasm_v128_load(from), b = wasm_v128_load(from + 4);
  v128_t even = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6);
  v128_t sum = wasm_i32x4_add(even, wasm_i32x4_shuffle(a, b, 1, 3, 5, 7));
  *over = wasm_v128_or(*over, wasm_u32x4_lt(sum, even));
  wasm_v128_store(to, sum);
}

/* Goes one level up on a side, which joins bins by two each. The side is a constant to the
 * compiler.
 */
static inline __attribute__((always_inline)) void sketch_halve(sketch *s, u32 side) {
  const i32 step = side == POSITIVE ? 1 : -1;
  u32 used = s->used[side], odd = s->first[side] & 1, bins = (used + odd + 1) / 2, j = 0;
  u32 *bin = sketch_bin(s, side, 0);
  u32 *from = side == POSITIVE ? bin - odd : bin + odd - 7, *to = side == POSITIVE ? bin : bin - 3;
  v128_t over = wasm_i32x4_splat(0);
  for (; 2 * j + 32 <= used; j += 16, from += 32 * step, to += 16 * step) {
    sketch_halve_eight(from, to, &over);
    sketch_halve_eight(from + 8 * step, to + 4 * step, &over);
    sketch_halve_eight(from + 16 * step, to + 8 * step, &over);
    sketch_halve_eight(from + 24 * step, to + 12 * step, &over);
  }
  for (; 2 * j + 8 <= used; j += 4, from += 8 * step, to += 4 * step)
    sketch_halve_eight(from, to, &over);
  s->full |= wasm_v128_any_true(over);
  for (i32 i = (i32)(2 * j - odd); j < bins; j++, i += 2) {
    u32 n = i >= 0 ? bin[i * step] : 0, more = i + 1 < (i32)used ? bin[(i + 1) * step] : 0;
    bin[(i32)j * step] = n + more;
    s->full |= n + more < n;
  }
  __builtin_memset(sketch_bin(s, side, side == POSITIVE ? bins : used - 1), 0, (used - bins) * 4);
  s->first[side] >>= 1;
  s->used[side] = bins;
}

/* Any record may make these necessary, in a group of its own: hence the vectors, and the turn of a
 * loop that does much.
 */
__attribute__((noinline)) static void sketch_halve_positive(sketch *s) {
  sketch_halve(s, POSITIVE);
}
__attribute__((noinline)) static void sketch_halve_negative(sketch *s) {
  sketch_halve(s, NEGATIVE);
}

PENTAD_COLD static void sketch_coarsen(sketch *s, u32 levels) {
  for (u32 i = 0; i < levels; i++) {
    if (s->used[POSITIVE]) sketch_halve_positive(s);
    if (s->used[NEGATIVE]) sketch_halve_negative(s);
  }
  s->level += levels;
}

static inline u32 sketch_last(const sketch *s, u32 side) {
  return s->first[side] + s->used[side] - 1;
}

/* Makes room for bins from first to last of level 0. */
PENTAD_COLD static void sketch_reach(sketch *s, u32 side, u32 first, u32 last) {
  u32 low = first >> s->level, high = last >> s->level, levels = 0, other = !side;
  if (s->used[side]) {
    low = low < s->first[side] ? low : s->first[side];
    high = high > sketch_last(s, side) ? high : sketch_last(s, side);
  }
  for (;; levels++) {
    u32 bins = (high >> levels) - (low >> levels) + 1;
    if (s->used[other])
      bins += (sketch_last(s, other) >> levels) - (s->first[other] >> levels) + 1;
    if (bins <= SKETCH_BINS) break;
  }
  if (levels) sketch_coarsen(s, levels);
  low >>= levels;
  high >>= levels;
  u32 used = s->used[side], up = s->first[side] - low;
  if (used && up) {
    u32 *from = sketch_bin(s, side, side == POSITIVE ? 0 : used - 1);
    u32 *to = sketch_bin(s, side, up + (side == POSITIVE ? 0 : used - 1));
    u32 cleared = up < used ? up : used;
    __builtin_memmove(to, from, used * 4);
    __builtin_memset(sketch_bin(s, side, side == POSITIVE ? 0 : cleared - 1), 0, cleared * 4);
  }
  s->first[side] = low;
  s->used[side] = high - low + 1;
}

PENTAD_COLD static void sketch_add_odd(sketch *s, f64 x) {
  if (x != x)
    s->nans++;
  else if (x - x != 0)
    s->infinities[x < 0]++;
  else
    s->zeros++;
}

static inline void sketch_add(sketch *s, f64 x) {
  s->min = x < s->min ? x : s->min;
  s->max = x > s->max ? x : s->max;
  u64 bits = pentad_u64((const u8 *)&x), size = bits & ~0ull >> 1;
  u32 side = (u32)(bits >> 63);
  if (size - SKETCH_NORMAL >= SKETCH_FINITE - SKETCH_NORMAL) {
    sketch_add_odd(s, x);
    return;
  }
  u32 bin = (u32)(size >> SKETCH_DROP), i = (bin >> s->level) - s->first[side];
  if (i >= s->used[side]) {
    sketch_reach(s, side, bin, bin);
    i = (bin >> s->level) - s->first[side];
  }
  sketch_count(s, sketch_bin(s, side, i), 1);
}

static inline i32 sketch_add_batch(const pentad_batch *b, const f64 *x, sketch *states) {
  u32 full = 0;
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    sketch *s = states + r.gid;
    for (u32 i = r.from; i < r.to; i++) sketch_add(s, x[i] + 0.0);
    full |= s->full;
  }
  return sketch_status(full);
}

/* src may be changed. */
static void sketch_merge(sketch *s, sketch *src) {
  s->nans += src->nans;
  s->zeros += src->zeros;
  s->min = src->min < s->min ? src->min : s->min;
  s->max = src->max > s->max ? src->max : s->max;
  if (s->level < src->level) sketch_coarsen(s, src->level - s->level);
  for (u32 side = 0; side < SIDES; side++) {
    s->infinities[side] += src->infinities[side];
    u32 first = src->first[side] << src->level;
    if (src->used[side])
      sketch_reach(s, side, first, sketch_last(src, side) << src->level);
  }
  if (src->level < s->level) sketch_coarsen(src, s->level - src->level);
  for (u32 side = 0; side < SIDES; side++)
    for (u32 i = 0, up = src->first[side] - s->first[side]; i < src->used[side]; i++)
      sketch_count(s, sketch_bin(s, side, i + up), *sketch_bin(src, side, i));
}

/* What any number is off by at most, relative to itself. */
static f64 sketch_error(const sketch *s) {
  return s->level <= SKETCH_BITS ? 1 / (f64)((2u << (SKETCH_BITS - s->level)) + 1) : 1;
}

/* What stands for the numbers of a bin: as far from its least as from its greatest,
 * in proportion.
 */
static f64 sketch_value(const sketch *s, u32 side, u32 i) {
  u64 bits = (u64)(s->first[side] + i) << (SKETCH_DROP + s->level);
  u64 next = bits + (1ull << (SKETCH_DROP + s->level));
  f64 low = pentad_f64((const u8 *)&bits), high = pentad_f64((const u8 *)&next);
  f64 ratio = next < SKETCH_FINITE ? low / high : low * 0.5 / 0x1p1023;
  f64 v = low * (2 / (1 + ratio));
  if (side == NEGATIVE) v = -v;
  v = v < s->min ? s->min : v;
  return v > s->max ? s->max : v;
}

static u64 sketch_numbers(sketch *s) {
  u64 n = s->zeros + s->infinities[POSITIVE] + s->infinities[NEGATIVE];
  for (u32 i = 0; i < SKETCH_BINS; i++) n += s->bins[i];
  return n;
}

/* Numbers in ascending order, of which some are wanted, by ascending rank from 1 on. */
typedef struct { u64 seen; const u64 *ranks; f64 *out; u32 left; } sketch_walk;

static inline u32 sketch_wanted(sketch_walk *w, u64 n) {
  w->seen += n;
  return w->left && w->seen >= *w->ranks;
}

static inline void sketch_give(sketch_walk *w, f64 x) {
  for (; w->left && w->seen >= *w->ranks; w->left--, w->ranks++) *w->out++ = x;
}

enum { SKETCH_MAX_SHARES = 16 };

/* For each share, which ascend, the least number that so many of all n numbers do not exceed. */
static void sketch_quantiles(sketch *s, u64 n, const f64 *shares, u32 count, f64 *out) {
  u64 ranks[SKETCH_MAX_SHARES];
  for (u32 i = 0; i < count; i++) {
    u64 rank = (u64)__builtin_ceil(shares[i] * (f64)n);
    ranks[i] = rank < 1 ? 1 : rank > n ? n : rank;
    out[i] = __builtin_nan("");
  }
  if (!n) return;
  sketch_walk w = {0, ranks, out, count};
  if (sketch_wanted(&w, s->infinities[NEGATIVE])) sketch_give(&w, -__builtin_inf());
  for (u32 i = s->used[NEGATIVE]; i-- > 0;)
    if (sketch_wanted(&w, *sketch_bin(s, NEGATIVE, i)))
      sketch_give(&w, sketch_value(s, NEGATIVE, i));
  if (sketch_wanted(&w, s->zeros)) sketch_give(&w, 0);
  for (u32 i = 0; i < s->used[POSITIVE]; i++)
    if (sketch_wanted(&w, *sketch_bin(s, POSITIVE, i)))
      sketch_give(&w, sketch_value(s, POSITIVE, i));
  if (sketch_wanted(&w, s->infinities[POSITIVE])) sketch_give(&w, __builtin_inf());
}

#endif
