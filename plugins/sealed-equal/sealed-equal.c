/* sealed-equal: keeps sealed payloads whose equality tag is one of some, without a key. */
#include "sealed.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_OFFSETS | PENTAD_DATA | PENTAD_MID | PENTAD_MOID, 0, 1, 0,
              8 + 60000, 0, "sealed-equal",
              "{\"name\":\"sealed-equal\",\"version\":\"1\","
              "\"about\":\"keeps sealed payloads that have a value, by their equality tags\","
              "\"payload\":[\"bytes\"],"
              "\"params\":[{\"name\":\"token\",\"type\":\"text\",\"size\":60000,"
              "\"help\":\"of a value, made by who has the key\"}]}")

static sealed_token token;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len < 8) return sealed_bad_token();
  u32 size;
  const u8 *p = pentad_text(params, 0, &size);
  i32 status = sealed_token_text(p, size, &token);
  if (status) return status;
  for (u32 i = 0, n = 0; i < token.n; n += token.series[i++].n)
    for (u32 k = 0; k < token.series[i].n; k++)
      if (token.open[n + k] || token.width != SEALED_TAG) return sealed_bad_token();
  return (i32)token.schema.prefix;
}

/* Whether a tag is one of the series; tags of neighbouring records are mostly of one period. */
static inline u32 one_of(u64 tag, const sealed_series *s) {
  static u32 last;
  const u8 *tags = token.tags + s->first * SEALED_TAG;
  if (last < s->n && pentad_u64(tags + last * SEALED_TAG) == tag) return 1;
  for (u32 k = 0; k < s->n; k++)
    if (pentad_u64(tags + k * SEALED_TAG) == tag) {
      last = k;
      return 1;
    }
  return 0;
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *bitmap) {
  for (u32 i = 0; i < b->n; i++) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    if (!sealed_is(&token.schema, p, size)) return sealed_other(&token.schema, p, size, i);
    const sealed_series *s = sealed_series_of(&token, p, b->mid[i], b->moid[i]);
    if (!s) return sealed_no_tags(p, b->mid[i], b->moid[i]);
    bitmap[i >> 6] |= (u64)one_of(pentad_u64(p + token.offset), s) << (i & 63);
  }
  return PENTAD_OK;
}
