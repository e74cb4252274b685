/* sum: the sum of the float64 that payloads start with. */
#include "kernel.h"

typedef struct { f64 sum; } state;

KERNEL("sum", state, 8, 0,
       "{\"name\":\"sum\",\"version\":\"1\",\"about\":\"the sum of a float64\","
       "\"result\":[{\"name\":\"sum\",\"type\":\"f64\"}]}")
KERNEL_NO_PARAMS
KERNEL_WORDS(state)

/* Adds 64 bytes to the sums, from the last on. */
#define LINE(load, at)                                                                             \
  do {                                                                                             \
    d = wasm_f64x2_add(d, load(p + (at) + 48));                                                    \
    c = wasm_f64x2_add(c, wasm_v128_load(p + (at) + 32));                                          \
    b = wasm_f64x2_add(b, wasm_v128_load(p + (at) + 16));                                          \
    a = wasm_f64x2_add(a, wasm_v128_load(p + (at)));                                               \
  } while (0)
#define LINES(at)                                                                                  \
  do {                                                                                             \
    LINE(wasm_v128_load, at);                                                                      \
    LINE(wasm_v128_load, (at) + 64);                                                               \
    LINE(wasm_v128_load, (at) + 128);                                                              \
    LINE(wasm_v128_load, (at) + 192);                                                              \
  } while (0)

/* Payloads of 8 bytes, in eight sums. A round costs about as much as 32 of the 128 that it adds. */
static f64 dense(const u8 *p, u32 n) {
  v128_t a = {0}, b = a, c = a, d = a;
  for (; n >= 128; n -= 128, p += 1024) {
    LINE(first_v128, 960);
    LINE(wasm_v128_load, 896);
    LINE(wasm_v128_load, 832);
    LINE(wasm_v128_load, 768);
    LINES(512);
    LINES(256);
    LINES(0);
  }
  for (; n >= 8; n -= 8, p += 64) LINE(first_v128, 0);
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
