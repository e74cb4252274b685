/* hll: HyperLogLog of 8-byte payloads with 4,096 registers, which are the result. */
#include "kernel.h"

enum { BITS = 12, REGISTERS = 1 << BITS };

typedef struct { u8 rank[REGISTERS]; } state;

KERNEL("hll", state, sizeof(state), 0,
       "{\"name\":\"hll\",\"version\":\"1\",\"about\":\"HyperLogLog with 4096 registers\","
       "\"result\":[{\"name\":\"registers\",\"type\":\"u64\",\"repeat\":true}]}")
KERNEL_NO_PARAMS
KERNEL_WORDS(state)

static inline u64 mix(u64 x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

static inline void note(state *s, u64 x) {
  u64 h = mix(x);
  u8 *r = s->rank + (h >> (64 - BITS));
  u8 rank = (u8)(__builtin_clzll(h << BITS | 1ull << (BITS - 1)) + 1);
  if (rank > *r) *r = rank;
}

static void add_run(state *s, const u8 *p, u32 stride, u32 n) {
  if (stride == 8)
    for (; n >= 4; n -= 4, p += 32) {
      u64 last = *(const volatile u64 *)(p + 24);
      note(s, pentad_u64(p));
      note(s, pentad_u64(p + 8));
      note(s, pentad_u64(p + 16));
      note(s, last);
    }
  for (; n; n--, p += stride) note(s, pentad_u64(p));
}

KERNEL_ADD(state, add_run)

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  u8 *d = (u8 *)dst;
  const u8 *s = (const u8 *)src;
  for (u32 i = 0; i < n * REGISTERS; i += 16)
    wasm_v128_store(d + i, wasm_u8x16_max(wasm_v128_load(d + i), wasm_v128_load(s + i)));
  return PENTAD_OK;
}
