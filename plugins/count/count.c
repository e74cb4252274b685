/* count: how many records a group has. */
#include "pentad.h"

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_RUNS, 8, 8, 8, 0, 0, "count",
              "{\"name\":\"count\",\"version\":\"1\",\"about\":\"number of records\","
              "\"payload\":[\"any\"],\"result\":[{\"name\":\"count\",\"type\":\"u64\"}]}")

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  (void)params;
  return len ? pentad_bad_params("there are no parameters") : PENTAD_OK;
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(u64 *states, u32 n) {
  for (u32 i = 0; i < n; i++) states[i] = 0;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, u64 *states) {
  if (b->runs) {
    for (u32 r = 0, from = 0; r < b->n_runs; from = b->runs[r++].end)
      states[b->runs[r].gid] += b->runs[r].end - from;
    return PENTAD_OK;
  }
  for (u32 i = 0; i < b->n; i++) states[b->gid[i]]++;
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(u64 *dst, const u64 *src, u32 n) {
  for (u32 i = 0; i < n; i++) dst[i] += src[i];
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const u64 *states, u32 n, u64 *out, u32 cap) {
  if (cap / 8 < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) out[i] = states[i];
  return (i32)(n * 8);
}
