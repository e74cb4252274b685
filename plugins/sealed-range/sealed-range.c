/* sealed-range: keeps sealed payloads whose order tag lies in a range, without a key. */
#include "sealed.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_OFFSETS | PENTAD_DATA | PENTAD_MID | PENTAD_MOID, 0, 1, 0,
              8 + 60000, 0, "sealed-range",
              "{\"name\":\"sealed-range\",\"version\":\"1\","
              "\"about\":\"keeps sealed payloads whose value is in a range, by their order tags\","
              "\"payload\":[\"bytes\"],"
              "\"params\":[{\"name\":\"token\",\"type\":\"text\",\"size\":60000,"
              "\"help\":\"of a range, made by who has the key\"}]}")

static sealed_token token;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len < 8) return sealed_bad_token();
  u32 size;
  const u8 *p = pentad_text(params, 0, &size);
  i32 status = sealed_token_text(p, size, &token);
  if (status) return status;
  for (u32 i = 0; i < token.n; i++)
    if (token.series[i].n != 2) return sealed_bad_token();
  return (i32)token.schema.prefix;
}

static inline u32 inside(const u8 *p, const sealed_series *s) {
  const u8 *low = token.tags + s->first * token.width, *high = low + token.width;
  return (token.open[s->first] || sealed_compare(p, low, token.width) >= 0) &&
         (token.open[s->first + 1] || sealed_compare(p, high, token.width) <= 0);
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *bitmap) {
  for (u32 i = 0; i < b->n; i++) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    if (!sealed_is(&token.schema, p, size)) return sealed_other(&token.schema, p, size, i);
    const sealed_series *s = sealed_series_of(&token, p, b->mid[i], b->moid[i]);
    if (!s) return sealed_no_tags(p, b->mid[i], b->moid[i]);
    bitmap[i >> 6] |= (u64)inside(p + token.offset, s) << (i & 63);
  }
  return PENTAD_OK;
}
