/* sealed-stats: adds up sealed payloads, without a key. The result is a partial of sdk/seal. */
#include "sealed_rows.h"

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_CID | PENTAD_MID |
                  PENTAD_MOID | PENTAD_CAP | PENTAD_SERIES,
              sizeof(sealed_sum), 8, 0, 8 + 4096, PENTAD_GROWS, "sealed-stats",
              "{\"name\":\"sealed-stats\",\"version\":\"1\","
              "\"about\":\"adds up sealed payloads; who has the key reads the sums\","
              "\"payload\":[\"bytes\"],"
              "\"params\":[{\"name\":\"layout\",\"type\":\"text\",\"size\":4096,"
              "\"help\":\"of payloads, as pentad seal schema prints it\"}]}")

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len < 8) return sealed_bad_layout();
  u32 size;
  const u8 *p = pentad_text(params, 0, &size);
  return sealed_layout(p, size);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(sealed_sum *s, u32 n) {
  __builtin_memset(s, 0, n * sizeof(sealed_sum));
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, sealed_sum *states) {
  return sealed_add_batch(states, b);
}

PENTAD_EXPORT(pentad_save) i32 pentad_save(sealed_sum *s, u8 *out, u32 cap) {
  pentad_out o = {out, out + cap, 0};
  return sealed_put(&o, s);
}

PENTAD_EXPORT(pentad_load) i32 pentad_load(sealed_sum *s, const u8 *src, u32 size) {
  pentad_in in = {src, src + size, 0};
  if (!sealed_take(&in, s)) return sealed_no_memory();
  return sealed_loaded(&in);
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(sealed_sum *s, u32 n, u8 *out, u32 cap) {
  pentad_out o = {out, out + cap, 0};
  for (u32 i = 0; i < n; i++) {
    u8 *front = sealed_frame(&o);
    i32 status = sealed_framed(&o, front, sealed_put(&o, s + i));
    if (status) return status;
  }
  return (i32)(o.at - out);
}
