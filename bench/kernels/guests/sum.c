/* sum: the sum of the float64 that payloads start with. */
#include "kernel.h"

typedef struct { f64 sum; } state;

KERNEL("sum", state, 8, 0,
       "{\"name\":\"sum\",\"version\":\"1\",\"about\":\"the sum of a float64\","
       "\"result\":[{\"name\":\"sum\",\"type\":\"f64\"}]}")
KERNEL_NO_PARAMS
KERNEL_WORDS(state)

/* Payloads of 8 bytes; 32 a round, in eight sums. */
static f64 dense(const u8 *p, u32 n) {
  v128_t a = {0}, b = a, c = a, d = a;
  for (; n >= 32; n -= 32, p += 256) {
    v128_t last = first_v128(p + 240);
    a = wasm_f64x2_add(a, wasm_v128_load(p));
    b = wasm_f64x2_add(b, wasm_v128_load(p + 16));
    c = wasm_f64x2_add(c, wasm_v128_load(p + 32));
    d = wasm_f64x2_add(d, wasm_v128_load(p + 48));
    a = wasm_f64x2_add(a, wasm_v128_load(p + 64));
    b = wasm_f64x2_add(b, wasm_v128_load(p + 80));
    c = wasm_f64x2_add(c, wasm_v128_load(p + 96));
    d = wasm_f64x2_add(d, wasm_v128_load(p + 112));
    a = wasm_f64x2_add(a, wasm_v128_load(p + 128));
    b = wasm_f64x2_add(b, wasm_v128_load(p + 144));
    c = wasm_f64x2_add(c, wasm_v128_load(p + 160));
    d = wasm_f64x2_add(d, wasm_v128_load(p + 176));
    a = wasm_f64x2_add(a, wasm_v128_load(p + 192));
    b = wasm_f64x2_add(b, wasm_v128_load(p + 208));
    c = wasm_f64x2_add(c, wasm_v128_load(p + 224));
    d = wasm_f64x2_add(d, last);
  }
  a = wasm_f64x2_add(wasm_f64x2_add(a, b), wasm_f64x2_add(c, d));
  f64 sum = wasm_f64x2_extract_lane(a, 0) + wasm_f64x2_extract_lane(a, 1);
  for (; n; n--, p += 8) sum += pentad_f64(p);
  return sum;
}

/* Payloads of a size that the compiler knows or not. */
static inline __attribute__((always_inline)) f64 strided(const u8 *p, u32 stride, u32 n) {
  f64 a = 0, b = 0, c = 0, d = 0;
  for (; n >= 8; n -= 8, p += 8 * stride) {
    f64 last = pentad_f64_first(p + 7 * stride);
    a += pentad_f64(p);
    b += pentad_f64(p + stride);
    c += pentad_f64(p + 2 * stride);
    d += pentad_f64(p + 3 * stride);
    a += pentad_f64(p + 4 * stride);
    b += pentad_f64(p + 5 * stride);
    c += pentad_f64(p + 6 * stride);
    d += last;
  }
  for (; n; n--, p += stride) a += pentad_f64(p);
  return a + b + (c + d);
}

static void add_run(state *s, const u8 *p, u32 stride, u32 n) {
  s->sum += stride == 8 ? dense(p, n) : stride == 16 ? strided(p, 16, n) : strided(p, stride, n);
}

KERNEL_ADD(state, add_run)

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) dst[i].sum += src[i].sum;
  return PENTAD_OK;
}
