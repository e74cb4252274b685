/* readable: keeps the records whose payload has a number where plugins read it, or the others. */
#include "columns.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_OFFSETS | PENTAD_DATA, 0, 1, 0, 24, 0, "readable",
              "{\"name\":\"readable\",\"version\":\"1\","
              "\"about\":\"keeps records whose payload has a number to read, or the others\","
              "\"payload\":[\"any\"],\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"keep\",\"type\":\"enum\",\"enum\":[\"readable\",\"others\"],"
              "\"default\":\"readable\",\"help\":\"which records are kept\"}]}")

static pentad_field field;
static u32 others;

/* Returns 0: the length of payloads matters, so none may be cut. */
PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len != 24) return pentad_bad_params("type, offset and keep must have 24 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  if (pentad_u64(params + 16) > 1)
    return pentad_bad_params("keep must be readable or others, as 0 or 1");
  others = (u32)pentad_u64(params + 16);
  return PENTAD_OK;
}

static inline u32 readable(const u8 *p, u32 size) {
  f64 x;
  if (field.type != PENTAD_T_TEXT) return size >= field.offset + pentad_type_size(field.type);
  return size > field.offset && pentad_decimal(p + field.offset, p + size, &x);
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *bitmap) {
  for (u32 i = 0; i < b->n; i++) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    bitmap[i >> 6] |= (u64)(readable(p, size) != others) << (i & 63);
  }
  return PENTAD_OK;
}
