/* first-last: the first and the last reading of a group, by capture, then acquisition time. */
#include "edge.h"

typedef struct { u64 count; i64 first_cap; f64 first; i64 last_cap; f64 last; } result;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_CAP | PENTAD_ACQ,
              sizeof(edges), 8, sizeof(result), 16, 0, "first-last",
              "{\"name\":\"first-last\",\"version\":\"1\","
              "\"about\":\"first and last number by capture time\"," PENTAD_NUMBER_PAYLOAD
              "\"params\":[" PENTAD_NUMBER_PARAMS "],\"result\":["
              "{\"name\":\"count\",\"type\":\"u64\"},{\"name\":\"first_cap\",\"type\":\"i64\"},"
              "{\"name\":\"first\",\"type\":\"f64\"},{\"name\":\"last_cap\",\"type\":\"i64\"},"
              "{\"name\":\"last\",\"type\":\"f64\"}]}")

static pentad_field field;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 16) return pentad_bad_params("type and offset must have 16 bytes together");
  i32 status = pentad_field_params(params, &field);
  return status ? status : pentad_front(&field);
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
    out[i] = (result){s[i].count, s[i].first.cap, pentad_canonical(s[i].first.x), s[i].last.cap,
                      pentad_canonical(s[i].last.x)};
    if (!s[i].count) out[i] = (result){0, 0, __builtin_nan(""), 0, __builtin_nan("")};
  }
  return (i32)(n * sizeof(result));
}
