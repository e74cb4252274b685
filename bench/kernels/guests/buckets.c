/* buckets: how many float64 fall into each of 64 buckets of equal width; the first and the last
 * take what is outside. */
#include "kernel.h"

enum { BUCKETS = 64 };

typedef struct { u64 count[BUCKETS]; } state;

KERNEL("buckets", state, sizeof(state), 16,
       "{\"name\":\"buckets\",\"version\":\"1\",\"about\":\"a histogram of 64 buckets\","
       "\"params\":[{\"name\":\"lo\",\"type\":\"f64\"},{\"name\":\"scale\",\"type\":\"f64\"}],"
       "\"result\":[{\"name\":\"buckets\",\"type\":\"u64\",\"repeat\":true}]}")
KERNEL_WORDS(state)

static f64 lo, scale;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len != 16) return PENTAD_EPARAM;
  lo = pentad_f64(params);
  scale = pentad_f64(params + 8);
  return PENTAD_OK;
}

/* Counts of many payloads, in as many tables as are counted in a round: a processor that takes two
 * counts of the same place at once for counts of different ones has to begin again. */
enum { TABLES = 8, MANY = 512 };
static u32 tables[TABLES][BUCKETS];

/* Two numbers at once: an unsigned truncation that saturates takes what is below to bucket 0. */
static inline void count(u32 (*to)[BUCKETS], v128_t x, v128_t lo2, v128_t scale2) {
  v128_t k = wasm_u32x4_trunc_sat_f64x2_zero(wasm_f64x2_mul(wasm_f64x2_sub(x, lo2), scale2));
  k = wasm_u32x4_min(k, wasm_i32x4_splat(BUCKETS - 1));
  to[0][wasm_u32x4_extract_lane(k, 0)]++;
  to[1][wasm_u32x4_extract_lane(k, 1)]++;
}

static void add_tables(state *s) {
  for (u32 k = 0; k < BUCKETS; k += 4) {
    v128_t sum = {0};
    for (u32 t = 0; t < TABLES; t++) {
      sum = wasm_i32x4_add(sum, wasm_v128_load(&tables[t][k]));
      wasm_v128_store(&tables[t][k], (v128_t){0});
    }
    u64 *to = s->count + k;
    wasm_v128_store(to, wasm_i64x2_add(wasm_v128_load(to), wasm_u64x2_extend_low_u32x4(sum)));
    to += 2;
    wasm_v128_store(to, wasm_i64x2_add(wasm_v128_load(to), wasm_u64x2_extend_high_u32x4(sum)));
  }
}

static void add_run(state *s, const u8 *p, u32 stride, u32 n) {
  v128_t lo2 = wasm_f64x2_splat(lo), scale2 = wasm_f64x2_splat(scale);
  if (stride == 8 && n >= MANY) {
    for (; n >= 8; n -= 8, p += 64) {
      v128_t last = first_v128(p + 48);
      count(tables, wasm_v128_load(p), lo2, scale2);
      count(tables + 2, wasm_v128_load(p + 16), lo2, scale2);
      count(tables + 4, wasm_v128_load(p + 32), lo2, scale2);
      count(tables + 6, last, lo2, scale2);
    }
    add_tables(s);
  }
  for (; n; n--, p += stride) {
    f64 k = (pentad_f64(p) - lo) * scale;
    s->count[k >= BUCKETS ? BUCKETS - 1 : k > 0 ? (u32)k : 0]++;
  }
}

KERNEL_ADD(state, add_run)

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(u64 *dst, const u64 *src, u32 n) {
  for (u32 i = 0; i < n * BUCKETS; i++) dst[i] += src[i];
  return PENTAD_OK;
}
