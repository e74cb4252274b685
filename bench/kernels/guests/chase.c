/* chase: never returns from pentad_add, and loads all over its memory, each load from where the last
 * one says: the slowest of instructions. It imports what programs built by Go do, and so has their
 * limits. */
#include "kernel.h"

enum { WORDS = 2 << 20 }; /* 8 MiB, more than the caches near a processor */

typedef struct { u64 turns; } state;

static u32 *next; /* of each word the word after it, all of them in one circle */

__attribute__((import_module("wasi_snapshot_preview1"), import_name("sched_yield")))
i32 sched_yield(void);

KERNEL("chase", state, 8, 0,
       "{\"name\":\"chase\",\"version\":\"1\",\"about\":\"an endless loop of loads\","
       "\"result\":[{\"name\":\"turns\",\"type\":\"u64\"}]}")
KERNEL_WORDS(state)

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  (void)params, (void)len;
  next = (u32 *)(__builtin_wasm_memory_grow(0, WORDS / (1 << 14)) << 16);
  for (u32 i = 0; i < WORDS; i++) next[i] = (i * 1664525 + 1013904223) % WORDS;
  return sched_yield();
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  for (volatile u64 *turns = &states->turns;; *turns += b->n) {
    u32 at = (u32)*turns % WORDS;
    for (u32 i = 0; i < 1 << 16; i++) at = next[at];
    *turns = at;
  }
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) dst[i].turns += src[i].turns;
  return PENTAD_OK;
}
