/* above.h: keeps the records whose float64 is above the parameter. The source that includes it says
 * how the eight payloads at p become eight bits. */
#include "kernel.h"

static f64 value;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len != 8) return PENTAD_EPARAM;
  value = pentad_f64(params);
  return PENTAD_OK;
}

#define ABOVE(name_)                                                                               \
  PENTAD_MODULE(PENTAD_FILTER, PENTAD_DATA, 0, 1, 0, 8, 0, name_,                                  \
                "{\"name\":\"" name_ "\",\"version\":\"1\",\"about\":\"a float64 above a value\"," \
                "\"params\":[{\"name\":\"value\",\"type\":\"f64\"}]}")

static void above_rest(const u8 *p, u32 stride, u32 from, u32 n, u8 *bitmap) {
  for (u32 i = from; i < n; i++)
    bitmap[i >> 3] |= (u8)((pentad_f64(p + (u64)i * stride) > value) << (i & 7));
}
