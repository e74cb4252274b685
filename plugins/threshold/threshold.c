/* threshold: keeps the records whose number stands in a relation to a value. */
#include "pentad.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_OFFSETS | PENTAD_DATA, 0, 1, 0, 32, 0, "threshold",
              "{\"name\":\"threshold\",\"version\":\"1\","
              "\"about\":\"keeps records whose number is above, below or equal to a value\","
              "\"payload\":[\"f64\",\"f32\",\"i64\",\"i32\"],\"params\":["
              "{\"name\":\"type\",\"type\":\"enum\",\"enum\":[\"f64\",\"f32\",\"i64\",\"i32\"],"
              "\"default\":\"f64\",\"help\":\"type of the number\"},"
              "{\"name\":\"offset\",\"type\":\"u64\",\"default\":\"0\","
              "\"help\":\"where the number starts in the payload\"},"
              "{\"name\":\"op\",\"type\":\"enum\",\"enum\":[\"gt\",\"ge\",\"lt\",\"le\",\"eq\",\"ne\"],"
              "\"default\":\"gt\",\"help\":\"relation of the number to the value\"},"
              "{\"name\":\"value\",\"type\":\"f64\"}]}")

enum { GT, GE, LT, LE, EQ, NE, OPS };

static u32 type, offset, want, op;
static f64 value;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len != 32)
    return pentad_bad_params("type, offset, op and value must have 32 bytes together");
  i32 status = pentad_number_params(params, &type, &offset, &want);
  if (status) return status;
  if (pentad_u64(params + 16) >= OPS)
    return pentad_bad_params("op must be gt, ge, lt, le, eq or ne, as 0 to 5");
  op = (u32)pentad_u64(params + 16);
  value = pentad_f64(params + 24);
  return PENTAD_OK;
}

static inline u32 holds(f64 x) {
  switch (op) {
  case GT: return x > value;
  case GE: return x >= value;
  case LT: return x < value;
  case LE: return x <= value;
  case EQ: return x == value;
  default: return x != value;
  }
}

/* float64 of one size, above the value: the common question, without a branch per record. */
static void dense_above(const pentad_batch *b, u64 *bitmap) {
  const u8 *p = b->data + offset;
  for (u32 i = 0; i < b->n; i += 64) {
    u32 m = b->n - i < 64 ? b->n - i : 64;
    u64 word = 0;
    for (u32 k = 0; k < m; k++, p += b->stride) word |= (u64)(pentad_f64(p) > value) << k;
    bitmap[i >> 6] = word;
  }
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *bitmap) {
  if (b->stride >= want && type == PENTAD_T_F64 && op == GT) {
    dense_above(b, bitmap);
    return PENTAD_OK;
  }
  for (u32 i = 0; i < b->n; i++) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    if (size < want) return pentad_short_payload(i, size, want);
    bitmap[i >> 6] |= (u64)holds(pentad_number(p + offset, type)) << (i & 63);
  }
  return PENTAD_OK;
}
