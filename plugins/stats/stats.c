/* stats: count, sum, smallest, greatest, mean and sample variance of a number in the payload.
 *
 * Within a run of a batch the mean and the squared distances from it are computed in two passes;
 * runs, batches and states are combined by Chan's formula, so that variance does not cancel.
 */
#include "columns.h"

typedef struct { u64 count; f64 sum, min, max, mean, m2; } state;

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA,
              sizeof(state), 8, 48, 16, PENTAD_DEPENDS_ON_BATCHES, "stats",
              "{\"name\":\"stats\",\"version\":\"1\","
              "\"about\":\"count, sum, min, max, mean and sample variance of a number\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS "],\"result\":["
              "{\"name\":\"count\",\"type\":\"u64\"},{\"name\":\"sum\",\"type\":\"f64\"},"
              "{\"name\":\"min\",\"type\":\"f64\"},{\"name\":\"max\",\"type\":\"f64\"},"
              "{\"name\":\"mean\",\"type\":\"f64\"},{\"name\":\"variance\",\"type\":\"f64\"}]}")

static pentad_field field;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 16) return pentad_bad_params("type and offset must have 16 bytes together");
  i32 status = pentad_field_params(params, &field);
  return status ? status : pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++)
    s[i] = (state){0, 0, __builtin_inf(), -__builtin_inf(), 0, 0};
}

static void combine(state *s, const state *o) {
  if (!o->count) return;
  if (!s->count) {
    *s = *o;
    return;
  }
  f64 a = (f64)s->count, b = (f64)o->count, n = a + b, d = o->mean - s->mean;
  s->count += o->count;
  s->sum += o->sum;
  s->min = o->min < s->min ? o->min : s->min;
  s->max = o->max > s->max ? o->max : s->max;
  s->mean += d * (b / n);
  s->m2 += o->m2 + d * d * (a * b / n);
}

/* What two rows add to the first pass of add_run. pmin and pmax keep what they have from a number
 * that is not one.
 */
#define FIRST_PASS(two)                                                                            \
  do {                                                                                             \
    v128_t v = two;                                                                                \
    sums = wasm_f64x2_add(sums, v);                                                                \
    lows = wasm_f64x2_pmin(lows, v);                                                               \
    highs = wasm_f64x2_pmax(highs, v);                                                             \
  } while (0)

#define SECOND_PASS(two)                                                                           \
  do {                                                                                             \
    v128_t d = wasm_f64x2_sub(two, means);                                                         \
    squares = wasm_f64x2_add(squares, wasm_f64x2_mul(d, d));                                       \
  } while (0)

/* A pass over the rows of a run, eight at a time. */
#define RUN(pass)                                                                                  \
  for (i = 0; i + 8 <= n; i += 8) {                                                                \
    v128_t last = pentad_first_two(x + i + 6);                                                     \
    pass(wasm_v128_load(x + i));                                                                   \
    pass(wasm_v128_load(x + i + 2));                                                               \
    pass(wasm_v128_load(x + i + 4));                                                               \
    pass(last);                                                                                    \
  }                                                                                                \
  for (; i + 2 <= n; i += 2) pass(wasm_v128_load(x + i))

/* The rows of a run. Even and odd ones are summed apart, as the two halves of a vector. */
static void add_run(state *s, const f64 *x, u32 n) {
  v128_t sums = wasm_f64x2_splat(0), lows = wasm_f64x2_splat(__builtin_inf());
  v128_t highs = wasm_f64x2_splat(-__builtin_inf());
  u32 i;
  RUN(FIRST_PASS);
  f64 sum0 = wasm_f64x2_extract_lane(sums, 0), sum1 = wasm_f64x2_extract_lane(sums, 1);
  f64 lo0 = wasm_f64x2_extract_lane(lows, 0), lo1 = wasm_f64x2_extract_lane(lows, 1);
  f64 hi0 = wasm_f64x2_extract_lane(highs, 0), hi1 = wasm_f64x2_extract_lane(highs, 1);
  if (i < n) {
    sum0 += x[i];
    lo0 = x[i] < lo0 ? x[i] : lo0;
    hi0 = x[i] > hi0 ? x[i] : hi0;
  }
  f64 sum = sum0 + sum1, mean = sum / n;
  v128_t means = wasm_f64x2_splat(mean), squares = wasm_f64x2_splat(0);
  RUN(SECOND_PASS);
  f64 m0 = wasm_f64x2_extract_lane(squares, 0), m1 = wasm_f64x2_extract_lane(squares, 1);
  if (i < n) m0 += (x[i] - mean) * (x[i] - mean);
  state part = {n, sum, lo1 < lo0 ? lo1 : lo0, hi1 > hi0 ? hi1 : hi0, mean, m0 + m1};
  combine(s, &part);
}

/* A row of a group that has others between its own. The highest field is read first, and the bounds
 * are vectors of which one half counts: choosing between two numbers is a branch.
 */
static inline void add_one(state *s, f64 x) {
  f64 m2 = *(const volatile f64 *)&s->m2, mean = s->mean, d = x - mean;
  v128_t v = wasm_f64x2_splat(x);
  v128_t high = wasm_f64x2_pmax(wasm_v128_load64_zero(&s->max), v);
  v128_t low = wasm_f64x2_pmin(wasm_v128_load64_zero(&s->min), v);
  i64 count = (i64)s->count + 1;
  s->count = (u64)count;
  s->sum += x;
  wasm_v128_store64_lane(&s->min, low, 0);
  wasm_v128_store64_lane(&s->max, high, 0);
  mean += d / (f64)count;
  s->mean = mean;
  s->m2 = m2 + d * (x - mean);
}

static void add_rows(const u32 *gid, state *states, const f64 *x, u32 n) {
  u32 i = 0;
  for (; i + 4 <= n; i += 4, gid += 4, x += 4) {
    u32 g3 = *(const volatile u32 *)(gid + 3), g0 = gid[0], g1 = gid[1], g2 = gid[2];
    f64 x3 = pentad_f64_first((const u8 *)(x + 3)), x0 = x[0], x1 = x[1], x2 = x[2];
    add_one(states + g0, x0);
    add_one(states + g1, x1);
    add_one(states + g2, x2);
    add_one(states + g3, x3);
  }
  for (; i < n; i++) add_one(states + *gid++, *x++);
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status;
  const f64 *x = pentad_numbers(b, &field, &status);
  if (!x) return status;
  if (!b->runs) add_rows(b->gid, states, x, b->n);
  for (u32 r = 0, from = 0; r < b->n_runs; from = b->runs[r++].end)
    add_run(states + b->runs[r].gid, x + from, b->runs[r].end - from);
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) combine(dst + i, src + i);
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, state *out, u32 cap) {
  if (cap / sizeof(state) < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) {
    f64 variance = s[i].count > 1 ? s[i].m2 / (f64)(s[i].count - 1) : __builtin_nan("");
    out[i] = (state){s[i].count, pentad_canonical(s[i].sum), s[i].min, s[i].max,
                     pentad_canonical(s[i].mean), pentad_canonical(variance)};
  }
  return (i32)(n * sizeof(state));
}
