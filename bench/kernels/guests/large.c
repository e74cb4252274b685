/* large: a module of some 10 KB, which is what an author with much to say uploads: one of 32
 * polynomials of a float64, summed. */
#include "kernel.h"

typedef struct { f64 sum; } state;

KERNEL("large", state, 8, 8,
       "{\"name\":\"large\",\"version\":\"00000000\",\"about\":\"the sum of a polynomial\","
       "\"params\":[{\"name\":\"which\",\"type\":\"u64\",\"default\":\"0\"}],"
       "\"result\":[{\"name\":\"sum\",\"type\":\"f64\"}]}")
KERNEL_WORDS(state)

static u64 which;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len && len != 8) return PENTAD_EPARAM;
  which = len ? pentad_u64(params) : 0;
  return which < 32 ? PENTAD_OK : PENTAD_EPARAM;
}

#define POLYNOMIAL(k)                                                                              \
  static __attribute__((noinline)) f64 polynomial##k(const u8 *p, u32 stride, u32 n) {             \
    f64 sum = 0, other = 0;                                                                        \
    for (; n >= 2; n -= 2, p += 2 * stride) {                                                      \
      f64 y = pentad_f64_first(p + stride), x = pentad_f64(p);                                            \
      sum += ((x * (k * .125) + k) * x - k) * x;                                                   \
      other += ((y * (k * .125) + k) * y - k) * y;                                                   \
      if (sum > 1e300 - k) sum = k;                                                                \
    }                                                                                              \
    return n ? sum + other + pentad_f64(p) : sum + other;                                          \
  }

#define EIGHT(m, t) m(t##0) m(t##1) m(t##2) m(t##3) m(t##4) m(t##5) m(t##6) m(t##7)

EIGHT(POLYNOMIAL, 1)
EIGHT(POLYNOMIAL, 2)
EIGHT(POLYNOMIAL, 3)
EIGHT(POLYNOMIAL, 4)

#define CASE(k)                                                                                    \
  case k:                                                                                          \
    s->sum += polynomial##k(p, stride, n);                                                         \
    break;

static void add_run(state *s, const u8 *p, u32 stride, u32 n) {
  switch ((which >> 3) * 10 + 10 + (which & 7)) {
    EIGHT(CASE, 1)
    EIGHT(CASE, 2)
    EIGHT(CASE, 3)
    EIGHT(CASE, 4)
  }
}

KERNEL_ADD(state, add_run)

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) dst[i].sum += src[i].sum;
  return PENTAD_OK;
}
