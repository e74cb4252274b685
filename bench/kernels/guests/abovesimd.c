/* abovesimd: as above, sixteen records at a time. */
#include "above.h"

ABOVE("abovesimd")

/* Masks of 64 bits are halved three times by saturation, which keeps 0 and -1. */
static u32 dense(const u8 *p, u32 n, u8 *bitmap) {
  u32 i = 0;
  v128_t v = wasm_f64x2_splat(value);
  for (; i + 16 <= n; i += 16, p += 128) {
    v128_t h = wasm_f64x2_gt(first_v128(p + 112), v);
    v128_t a = wasm_f64x2_gt(wasm_v128_load(p), v);
    v128_t b = wasm_f64x2_gt(wasm_v128_load(p + 16), v);
    v128_t c = wasm_f64x2_gt(wasm_v128_load(p + 32), v);
    v128_t d = wasm_f64x2_gt(wasm_v128_load(p + 48), v);
    v128_t e = wasm_f64x2_gt(wasm_v128_load(p + 64), v);
    v128_t f = wasm_f64x2_gt(wasm_v128_load(p + 80), v);
    v128_t g = wasm_f64x2_gt(wasm_v128_load(p + 96), v);
    v128_t low = wasm_i16x8_narrow_i32x4(wasm_i16x8_narrow_i32x4(a, b),
                                         wasm_i16x8_narrow_i32x4(c, d));
    v128_t high = wasm_i16x8_narrow_i32x4(wasm_i16x8_narrow_i32x4(e, f),
                                          wasm_i16x8_narrow_i32x4(g, h));
    u16 bits = (u16)wasm_i8x16_bitmask(wasm_i8x16_narrow_i16x8(low, high));
    __builtin_memcpy(bitmap + (i >> 3), &bits, 2);
  }
  return i;
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u8 *bitmap) {
  if (b->stride < 8) return PENTAD_EPAYLOAD;
  u32 done = b->stride == 8 ? dense(b->data, b->n, bitmap) : 0;
  above_rest(b->data, b->stride, done, b->n, bitmap);
  return PENTAD_OK;
}
