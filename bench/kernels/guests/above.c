/* above: keeps the records whose float64 is above the parameter. */
#include "above.h"

ABOVE("above")

static u32 dense(const u8 *p, u32 n, u8 *bitmap) {
  u32 i = 0;
  for (f64 v = value; i + 8 <= n; i += 8, p += 64) {
    u32 last = pentad_f64_first(p + 56) > v;
    u32 low = (u32)(pentad_f64(p) > v) | (u32)(pentad_f64(p + 8) > v) << 1 |
              (u32)(pentad_f64(p + 16) > v) << 2 | (u32)(pentad_f64(p + 24) > v) << 3;
    u32 high = (u32)(pentad_f64(p + 32) > v) | (u32)(pentad_f64(p + 40) > v) << 1 |
               (u32)(pentad_f64(p + 48) > v) << 2 | last << 3;
    bitmap[i >> 3] = (u8)(low | high << 4);
  }
  return i;
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u8 *bitmap) {
  if (b->stride < 8) return PENTAD_EPAYLOAD;
  u32 done = b->stride == 8 ? dense(b->data, b->n, bitmap) : 0;
  above_rest(b->data, b->stride, done, b->n, bitmap);
  return PENTAD_OK;
}
