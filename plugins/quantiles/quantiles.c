/* quantiles: the median and others of a number, to a relative error that the result states. */
#include "sketch.h"

static const f64 shares[] = {0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999};

enum { SHARES = sizeof shares / sizeof shares[0] };

typedef struct { u64 count, nans; f64 error, min, at[SHARES], max, q; } result;

#define FIELD(name) ",{\"name\":\"" name "\",\"type\":\"f64\"}"

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA,
              sizeof(sketch), 8, sizeof(result), 24, 0, "quantiles",
              "{\"name\":\"quantiles\",\"version\":\"1\","
              "\"about\":"
              "\"quantiles of a number, off by at most the share of them that error says\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"q\",\"type\":\"f64\",\"default\":\"0.5\","
              "\"help\":\"one more, 0 to 1\"}],"
              "\"result\":[{\"name\":\"count\",\"type\":\"u64\"},"
              "{\"name\":\"nan\",\"type\":\"u64\"}"
              FIELD("error") FIELD("min") FIELD("p1") FIELD("p5") FIELD("p10") FIELD("p25")
              FIELD("p50") FIELD("p75") FIELD("p90") FIELD("p95") FIELD("p99") FIELD("p99_9")
              FIELD("max") FIELD("q") "]}")

static pentad_field field;
static f64 q = 0.5;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 24) return pentad_bad_params("type, offset and q must have 24 bytes together");
  q = pentad_f64(params + 16);
  if (!(q >= 0 && q <= 1)) return pentad_bad_params("q must be 0 to 1");
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

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(sketch *s, u32 n, result *out, u32 cap) {
  if (cap / sizeof(result) < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++, s++, out++) {
    u64 count = sketch_numbers(s);
    *out = (result){count, s->nans, sketch_error(s), s->min, {0}, s->max, 0};
    sketch_quantiles(s, count, shares, SHARES, out->at);
    sketch_quantiles(s, count, &q, 1, &out->q);
  }
  return (i32)(n * sizeof(result));
}
