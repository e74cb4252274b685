/* rate-of-change: how much a number grows in a unit of time, from the first to the last reading. */
#include "edge.h"

typedef struct { u64 count, span_ns; f64 change, rate; } result;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_CAP | PENTAD_ACQ,
              sizeof(edges), 8, sizeof(result), 24, 0, "rate-of-change",
              "{\"name\":\"rate-of-change\",\"version\":\"1\","
              "\"about\":\"change from the first to the last number, in all and per unit of time\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"per\",\"type\":\"enum\","
              "\"enum\":[\"second\",\"minute\",\"hour\",\"day\"],"
              "\"default\":\"second\",\"help\":\"unit of time of the rate\"}],\"result\":["
              "{\"name\":\"count\",\"type\":\"u64\"},{\"name\":\"span_ns\",\"type\":\"u64\"},"
              "{\"name\":\"change\",\"type\":\"f64\"},{\"name\":\"rate\",\"type\":\"f64\"}]}")

static pentad_field field;
static f64 unit_ns = 1e9;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  static const f64 units[] = {1e9, 60e9, 3600e9, 86400e9};
  if (len == 0) return pentad_front(&field);
  if (len != 24) return pentad_bad_params("type, offset and per must have 24 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  if (pentad_u64(params + 16) >= sizeof units / sizeof units[0])
    return pentad_bad_params("per must be second, minute, hour or day, as 0 to 3");
  unit_ns = units[pentad_u64(params + 16)];
  return pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(edges *s, u32 n) {
  for (u32 i = 0; i < n; i++) edges_reset(s + i);
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, edges *states) {
  i32 status;
  const f64 *x = pentad_numbers(b, &field, &status);
  if (x) edges_add_batch(b, x, states);
  return status;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(edges *dst, const edges *src, u32 n) {
  for (u32 i = 0; i < n; i++) edges_merge(dst + i, src + i);
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const edges *s, u32 n, result *out, u32 cap) {
  if (cap / sizeof(result) < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) {
    u64 span = s[i].count ? (u64)s[i].last.cap - (u64)s[i].first.cap : 0;
    f64 change = s[i].last.x - s[i].first.x;
    f64 rate = span ? change / ((f64)span / unit_ns) : __builtin_nan("");
    out[i] = (result){s[i].count, span, pentad_canonical(change), pentad_canonical(rate)};
  }
  return (i32)(n * sizeof(result));
}
