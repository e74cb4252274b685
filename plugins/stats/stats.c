/* stats: count, sum, smallest, greatest, mean and sample variance of a number in the payload.
 *
 * Within a run of a batch the mean and the squared distances from it are computed in two passes;
 * runs, batches and states are combined by Chan's formula, so that variance does not cancel.
 */
#include "pentad.h"

typedef struct { u64 count; f64 sum, min, max, mean, m2; } state;

#define TYPES "\"enum\":[\"f64\",\"f32\",\"i64\",\"i32\"],\"default\":\"f64\""

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA,
              sizeof(state), 8, 48, 16, PENTAD_DEPENDS_ON_BATCHES, "stats",
              "{\"name\":\"stats\",\"version\":\"1\","
              "\"about\":\"count, sum, min, max, mean and sample variance of a number\","
              "\"payload\":[\"f64\",\"f32\",\"i64\",\"i32\"],\"params\":["
              "{\"name\":\"type\",\"type\":\"enum\"," TYPES ",\"help\":\"type of the number\"},"
              "{\"name\":\"offset\",\"type\":\"u64\",\"default\":\"0\","
              "\"help\":\"where the number starts in the payload\"}],\"result\":["
              "{\"name\":\"count\",\"type\":\"u64\"},{\"name\":\"sum\",\"type\":\"f64\"},"
              "{\"name\":\"min\",\"type\":\"f64\"},{\"name\":\"max\",\"type\":\"f64\"},"
              "{\"name\":\"mean\",\"type\":\"f64\"},{\"name\":\"variance\",\"type\":\"f64\"}]}")

static u32 type, offset, want;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) {
    want = 8;
    return PENTAD_OK;
  }
  if (len != 16) return pentad_bad_params("type and offset must have 16 bytes together");
  return pentad_number_params(params, &type, &offset, &want);
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

/* A run of payloads of one size that hold float64: the form that most meters send. */
static void add_dense(state *s, const u8 *p, u32 stride, u32 n) {
  f64 sum0 = 0, sum1 = 0, lo0 = __builtin_inf(), hi0 = -lo0, lo1 = lo0, hi1 = hi0;
  u32 i = 0;
  const u8 *q = p;
  for (; i + 2 <= n; i += 2, q += 2 * stride) {
    f64 y = pentad_f64(q + stride), x = pentad_f64(q);
    sum0 += x;
    sum1 += y;
    lo0 = x < lo0 ? x : lo0; /* each against its own: a comparison with not-a-number loses both */
    hi0 = x > hi0 ? x : hi0;
    lo1 = y < lo1 ? y : lo1;
    hi1 = y > hi1 ? y : hi1;
  }
  if (i < n) {
    f64 x = pentad_f64(q);
    sum0 += x;
    lo0 = x < lo0 ? x : lo0;
    hi0 = x > hi0 ? x : hi0;
  }
  f64 lo = lo1 < lo0 ? lo1 : lo0, hi = hi1 > hi0 ? hi1 : hi0;
  f64 sum = sum0 + sum1, mean = sum / n, m0 = 0, m1 = 0;
  for (i = 0, q = p; i + 2 <= n; i += 2, q += 2 * stride) {
    f64 y = pentad_f64(q + stride) - mean, x = pentad_f64(q) - mean;
    m0 += x * x;
    m1 += y * y;
  }
  if (i < n) {
    f64 x = pentad_f64(q) - mean;
    m0 += x * x;
  }
  state part = {n, sum, lo, hi, mean, m0 + m1};
  combine(s, &part);
}

static void add_one(state *s, f64 x) {
  s->count++;
  s->sum += x;
  s->min = x < s->min ? x : s->min;
  s->max = x > s->max ? x : s->max;
  f64 d = x - s->mean;
  s->mean += d / (f64)s->count;
  s->m2 += d * (x - s->mean);
}

static i32 add_rows(const pentad_batch *b, state *s, const u32 *gid, u32 from, u32 to) {
  for (u32 i = from; i < to; i++) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    if (size < want) return pentad_short_payload(i, size, want);
    add_one(gid ? s + gid[i] : s, pentad_number(p + offset, type));
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  if (!b->runs) return add_rows(b, states, b->gid, 0, b->n);
  for (u32 r = 0, from = 0; r < b->n_runs; from = b->runs[r++].end) {
    state *s = states + b->runs[r].gid;
    if (b->stride >= want && type == PENTAD_T_F64) {
      add_dense(s, b->data + (u64)from * b->stride + offset, b->stride, b->runs[r].end - from);
      continue;
    }
    i32 status = add_rows(b, s, 0, from, b->runs[r].end);
    if (status) return status;
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) combine(dst + i, src + i);
  return PENTAD_OK;
}

/* Not-a-number has many bits, and processors differ in them. */
static f64 canonical(f64 x) { return x == x ? x : __builtin_nan(""); }

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, state *out, u32 cap) {
  if (cap / sizeof(state) < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) {
    f64 variance = s[i].count > 1 ? s[i].m2 / (f64)(s[i].count - 1) : __builtin_nan("");
    out[i] = (state){s[i].count, canonical(s[i].sum), s[i].min, s[i].max, canonical(s[i].mean),
                     canonical(variance)};
  }
  return (i32)(n * sizeof(state));
}
