/* spin: never returns from pentad_add. */
#include "kernel.h"

typedef struct { u64 turns; } state;

KERNEL("spin", state, 8, 0,
       "{\"name\":\"spin\",\"version\":\"1\",\"about\":\"an endless loop\","
       "\"result\":[{\"name\":\"turns\",\"type\":\"u64\"}]}")
KERNEL_NO_PARAMS
KERNEL_WORDS(state)

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  for (volatile u64 *turns = &states->turns;; *turns += b->n) {}
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) dst[i].turns += src[i].turns;
  return PENTAD_OK;
}
