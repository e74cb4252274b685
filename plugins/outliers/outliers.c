/* outliers: how many numbers lie beyond Tukey's fences, which are some interquartile
 * ranges away from the quartiles.
 */
#include "sketch.h"

typedef struct { u64 count, nans; f64 error, low, high; u64 below, above; f64 min, max; } result;

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA,
              sizeof(sketch), 8, sizeof(result), 24, 0, "outliers",
              "{\"name\":\"outliers\",\"version\":\"1\","
              "\"about\":\"numbers more than k interquartile ranges below or above the quartiles\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"k\",\"type\":\"f64\",\"default\":\"1.5\","
              "\"help\":\"how many interquartile ranges are usual\"}],"
              "\"result\":[{\"name\":\"count\",\"type\":\"u64\"},"
              "{\"name\":\"nan\",\"type\":\"u64\"},"
              "{\"name\":\"error\",\"type\":\"f64\"},{\"name\":\"low\",\"type\":\"f64\"},"
              "{\"name\":\"high\",\"type\":\"f64\"},{\"name\":\"below\",\"type\":\"u64\"},"
              "{\"name\":\"above\",\"type\":\"u64\"},{\"name\":\"min\",\"type\":\"f64\"},"
              "{\"name\":\"max\",\"type\":\"f64\"}]}")

static pentad_field field;
static f64 k = 1.5;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 24) return pentad_bad_params("type, offset and k must have 24 bytes together");
  k = pentad_f64(params + 16);
  if (!(k >= 0 && k < __builtin_inf())) return pentad_bad_params("k must be 0 or more");
  i32 status = pentad_field_params(params, &field);
  return status ? status : pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(sketch *s, u32 n) {
  for (u32 i = 0; i < n; i++) sketch_reset(s + i);
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, sketch *states) {
  i32 status;
  const f64 *x = pentad_numbers(b, &field, &status);
  return x ? sketch_add_batch(b, x, states) : status;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(sketch *dst, sketch *src, u32 n) {
  u32 full = 0;
  for (u32 i = 0; i < n; i++) {
    sketch_merge(dst + i, src + i);
    full |= dst[i].full;
  }
  return sketch_status(full);
}

static void count_beyond(sketch *s, result *r) {
  f64 low = r->low, high = r->high;
  r->below = -__builtin_inf() < low ? s->infinities[NEGATIVE] : 0;
  r->above = __builtin_inf() > high ? s->infinities[POSITIVE] : 0;
  if (0 < low) r->below += s->zeros;
  if (0 > high) r->above += s->zeros;
  for (u32 side = 0; side < SIDES; side++)
    for (u32 i = 0; i < s->used[side]; i++) {
      f64 x = sketch_value(s, side, i);
      u32 n = *sketch_bin(s, side, i);
      if (x < low) r->below += n;
      if (x > high) r->above += n;
    }
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(sketch *s, u32 n, result *out, u32 cap) {
  if (cap / sizeof(result) < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++, s++) {
    u64 count = sketch_numbers(s);
    static const f64 quarters[] = {0.25, 0.75};
    f64 q[2];
    sketch_quantiles(s, count, quarters, 2, q);
    f64 reach = k * (q[1] - q[0]);
    result r = {count, s->nans, sketch_error(s), pentad_canonical(q[0] - reach),
                pentad_canonical(q[1] + reach), 0, 0, s->min, s->max};
    count_beyond(s, &r);
    out[i] = r;
  }
  return (i32)(n * sizeof(result));
}
