/* kernel.h: what the guests of this folder share: payloads of one size that start with 8 bytes of
 * number, in runs of one group.
 *
 * The compiler of the host checks each access, but not one at a lower offset of the same address
 * in the same block. So loops are unrolled and read their highest offset first.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "pentad.h"

#ifdef __wasm_simd128__
#include <wasm_simd128.h>

typedef v128_t loose_v128 __attribute__((aligned(1)));

static inline v128_t first_v128(const u8 *p) { return *(const volatile loose_v128 *)p; }
#endif

#define KERNEL(name_, state_, result_, params_, doc_)                                              \
  PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_RUNS | PENTAD_DATA, sizeof(state_), 8, result_, params_,  \
                PENTAD_DEPENDS_ON_BATCHES, name_, doc_)

/* Each run goes to add_run(state, payloads, stride, records). */
#define KERNEL_ADD(state_, add_run)                                                                \
  PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state_ *states) {                \
    if (b->stride < 8) return PENTAD_EPAYLOAD;                                                     \
    for (u32 r = 0, from = 0; r < b->n_runs; from = b->runs[r++].end)                              \
      add_run(states + b->runs[r].gid, b->data + (u64)from * b->stride, b->stride,                 \
              b->runs[r].end - from);                                                              \
    return PENTAD_OK;                                                                              \
  }

/* States of words that start as zero; an array of them is the result. */
#define KERNEL_WORDS(state_)                                                                       \
  PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state_ *s, u32 n) {                      \
    __builtin_memset(s, 0, n * sizeof(state_));                                                    \
  }                                                                                                \
  PENTAD_EXPORT(pentad_finish)                                                                     \
  i32 pentad_finish(const state_ *s, u32 n, u8 *out, u32 cap) {                                    \
    if (cap / sizeof(state_) < n) return PENTAD_ECAP;                                              \
    __builtin_memcpy(out, s, n * sizeof(state_));                                                  \
    return (i32)(n * sizeof(state_));                                                              \
  }

#define KERNEL_NO_PARAMS                                                                           \
  PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {                          \
    (void)params;                                                                                  \
    return len ? PENTAD_EPARAM : 8; /* bytes of each payload are read */                           \
  }

#endif
