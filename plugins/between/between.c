/* between: keeps the records whose number lies in a range, or those whose number lies outside. */
#include "columns.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_OFFSETS | PENTAD_DATA, 0, 1, 0, 40, 0, "between",
              "{\"name\":\"between\",\"version\":\"1\","
              "\"about\":\"keeps records whose number is from low to high, or outside of that\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"low\",\"type\":\"f64\",\"default\":\"-Inf\","
              "\"help\":\"belongs to the range\"},"
              "{\"name\":\"high\",\"type\":\"f64\",\"default\":\"+Inf\","
              "\"help\":\"belongs to the range\"},"
              "{\"name\":\"keep\",\"type\":\"enum\",\"enum\":[\"inside\",\"outside\"],"
              "\"default\":\"inside\",\"help\":\"which side of the ends is kept\"}]}")

static pentad_field field;
static f64 low, high;
static u32 outside;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len != 40)
    return pentad_bad_params("type, offset, low, high and keep must have 40 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  low = pentad_f64(params + 16);
  high = pentad_f64(params + 24);
  if (!(low <= high)) return pentad_bad_params("low must be at most high");
  if (pentad_u64(params + 32) > 1)
    return pentad_bad_params("keep must be inside or outside, as 0 or 1");
  outside = (u32)pentad_u64(params + 32);
  return pentad_front(&field);
}

#define INSIDE(v) wasm_v128_and(wasm_f64x2_ge(v, lows), wasm_f64x2_le(v, highs))
#define OUTSIDE(v) wasm_v128_or(wasm_f64x2_lt(v, lows), wasm_f64x2_gt(v, highs))

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *bitmap) {
  i32 status;
  const f64 *x = pentad_numbers(b, &field, &status);
  if (!x) return status;
  v128_t lows = wasm_f64x2_splat(low), highs = wasm_f64x2_splat(high);
  if (outside)
    PENTAD_KEEP(bitmap, x, b->n, OUTSIDE);
  else
    PENTAD_KEEP(bitmap, x, b->n, INSIDE);
  return PENTAD_OK;
}
