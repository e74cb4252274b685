/* forgets: a count whose merge does nothing, as a check of who tests plugins. Built by
 * clang-19 and wasm-ld-19 with the flags of the template in C, and -I sdk/plugin/c. */
#include "pentad.h"

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID, 8, 8, 8, 0, 0, "forgets",
              "{\"name\":\"forgets\",\"result\":[{\"name\":\"count\",\"type\":\"u64\"}]}")

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  (void)params, (void)len;
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(u64 *states, u32 n) {
  for (u32 i = 0; i < n; i++) states[i] = 0;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, u64 *states) {
  for (u32 i = 0; i < b->n; i++) states[b->gid[i]]++;
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(u64 *dst, const u64 *src, u32 n) {
  (void)dst, (void)src, (void)n;
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const u64 *states, u32 n, u64 *out, u32 cap) {
  if (cap / 8 < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) out[i] = states[i];
  return (i32)(n * 8);
}
