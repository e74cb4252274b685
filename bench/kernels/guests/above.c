/* above: keeps the records whose float64 is above the parameter. */
#include "above.h"

ABOVE("above")

/* Bits of eight payloads, of which the last is known. */
static inline __attribute__((always_inline)) u32 eight(const u8 *p, f64 v, u32 last) {
  u32 low = (u32)(pentad_f64(p) > v) | (u32)(pentad_f64(p + 8) > v) << 1 |
            (u32)(pentad_f64(p + 16) > v) << 2 | (u32)(pentad_f64(p + 24) > v) << 3;
  u32 high = (u32)(pentad_f64(p + 32) > v) | (u32)(pentad_f64(p + 40) > v) << 1 |
             (u32)(pentad_f64(p + 48) > v) << 2 | last << 3;
  return low | high << 4;
}

static u32 dense(const u8 *p, u32 n, u8 *bitmap) {
  u32 i = 0;
  for (f64 v = value; i + 16 <= n; i += 16, p += 128) {
    u32 last = pentad_f64_first(p + 120) > v;
    bitmap[(i >> 3) + 1] = (u8)eight(p + 64, v, last);
    bitmap[i >> 3] = (u8)eight(p, v, pentad_f64(p + 56) > v);
  }
  return i;
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u8 *bitmap) {
  if (b->stride < 8) return PENTAD_EPAYLOAD;
  u32 done = b->stride == 8 ? dense(b->data, b->n, bitmap) : 0;
  above_rest(b->data, b->stride, done, b->n, bitmap);
  return PENTAD_OK;
}
