/* threshold: keeps the records whose number stands in a relation to a value. */
#include "columns.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_OFFSETS | PENTAD_DATA, 0, 1, 0, 32, 0, "threshold",
              "{\"name\":\"threshold\",\"version\":\"1\","
              "\"about\":\"keeps records whose number is above, below or equal to a value\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"op\",\"type\":\"enum\",\"enum\":[\"gt\",\"ge\",\"lt\",\"le\",\"eq\",\"ne\"],"
              "\"default\":\"gt\",\"help\":\"relation of the number to the value\"},"
              "{\"name\":\"value\",\"type\":\"f64\"}]}")

enum { GT, GE, LT, LE, EQ, NE, OPS };

static pentad_field field;
static u32 op;
static f64 value;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len != 32)
    return pentad_bad_params("type, offset, op and value must have 32 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  if (pentad_u64(params + 16) >= OPS)
    return pentad_bad_params("op must be gt, ge, lt, le, eq or ne, as 0 to 5");
  op = (u32)pentad_u64(params + 16);
  value = pentad_f64(params + 24);
  return pentad_front(&field);
}

#define GREATER(v) wasm_f64x2_gt(v, values)
#define NOT_LESS(v) wasm_f64x2_ge(v, values)
#define LESS(v) wasm_f64x2_lt(v, values)
#define NOT_GREATER(v) wasm_f64x2_le(v, values)
#define EQUAL(v) wasm_f64x2_eq(v, values)
#define DIFFERENT(v) wasm_f64x2_ne(v, values)

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *bitmap) {
  i32 status;
  const f64 *x = pentad_numbers(b, &field, &status);
  if (!x) return status;
  v128_t values = wasm_f64x2_splat(value);
  u32 n = b->n;
  switch (op) {
  case GT: PENTAD_KEEP(bitmap, x, n, GREATER); break;
  case GE: PENTAD_KEEP(bitmap, x, n, NOT_LESS); break;
  case LT: PENTAD_KEEP(bitmap, x, n, LESS); break;
  case LE: PENTAD_KEEP(bitmap, x, n, NOT_GREATER); break;
  case EQ: PENTAD_KEEP(bitmap, x, n, EQUAL); break;
  default: PENTAD_KEEP(bitmap, x, n, DIFFERENT);
  }
  return PENTAD_OK;
}
