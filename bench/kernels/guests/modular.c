/* modular: the sum modulo 2^64 of the uint64 that payloads are: what adds up encrypted values. */
#include "kernel.h"

typedef struct { u64 sum; } state;

KERNEL("modular", state, 8, 0,
       "{\"name\":\"modular\",\"version\":\"1\",\"about\":\"the sum of a uint64, modulo 2^64\","
       "\"result\":[{\"name\":\"sum\",\"type\":\"u64\"}]}")
KERNEL_NO_PARAMS
KERNEL_WORDS(state)

/* Four sums, and 32 payloads a round. They are subtracted because the compiler may turn additions
 * around, and the host's is slower by half where a sum is not the left operand. */
static u64 dense(const u8 *p, u32 n) {
  v128_t a = {0}, b = a, c = a, d = a;
  for (; n >= 32; n -= 32, p += 256) {
    v128_t last = first_v128(p + 240);
    a = wasm_i64x2_sub(a, wasm_v128_load(p));
    b = wasm_i64x2_sub(b, wasm_v128_load(p + 16));
    c = wasm_i64x2_sub(c, wasm_v128_load(p + 32));
    d = wasm_i64x2_sub(d, wasm_v128_load(p + 48));
    a = wasm_i64x2_sub(a, wasm_v128_load(p + 64));
    b = wasm_i64x2_sub(b, wasm_v128_load(p + 80));
    c = wasm_i64x2_sub(c, wasm_v128_load(p + 96));
    d = wasm_i64x2_sub(d, wasm_v128_load(p + 112));
    a = wasm_i64x2_sub(a, wasm_v128_load(p + 128));
    b = wasm_i64x2_sub(b, wasm_v128_load(p + 144));
    c = wasm_i64x2_sub(c, wasm_v128_load(p + 160));
    d = wasm_i64x2_sub(d, wasm_v128_load(p + 176));
    a = wasm_i64x2_sub(a, wasm_v128_load(p + 192));
    b = wasm_i64x2_sub(b, wasm_v128_load(p + 208));
    c = wasm_i64x2_sub(c, wasm_v128_load(p + 224));
    d = wasm_i64x2_sub(d, last);
  }
  a = wasm_i64x2_add(wasm_i64x2_add(a, b), wasm_i64x2_add(c, d));
  u64 sum = 0 - (u64)wasm_i64x2_extract_lane(a, 0) - (u64)wasm_i64x2_extract_lane(a, 1);
  for (; n; n--, p += 8) sum += pentad_u64(p);
  return sum;
}

static void add_run(state *s, const u8 *p, u32 stride, u32 n) {
  if (stride == 8) {
    s->sum += dense(p, n);
    return;
  }
  for (; n; n--, p += stride) s->sum += pentad_u64(p);
}

KERNEL_ADD(state, add_run)

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) dst[i].sum += src[i].sum;
  return PENTAD_OK;
}
