/* edge.h: the first and the last reading of a group, by capture and then by acquisition time.
 * Should even these be equal, the bits of the number decide, so that the order of rows never does.
 */
#ifndef EDGE_H
#define EDGE_H

#include "columns.h"

typedef struct { i64 cap, acq; f64 x; } edge;

static const edge edge_latest = {0x7fffffffffffffff, 0x7fffffffffffffff, 0};
static const edge edge_earliest = {-0x7fffffffffffffff - 1, -0x7fffffffffffffff - 1, 0};

static inline i64 edge_bits(const edge *e) { return pentad_i64((const u8 *)&e->x); }

static inline u32 edge_before(const edge *a, const edge *b) {
  if (a->cap != b->cap) return a->cap < b->cap;
  if (a->acq != b->acq) return a->acq < b->acq;
  return edge_bits(a) < edge_bits(b);
}

/* The first and the last reading, and how many there are; none is between edge_latest and
 * edge_earliest.
 */
typedef struct { u64 count; edge first, last; } edges;

static inline void edges_reset(edges *s) {
  s->count = 0;
  s->first = edge_latest;
  s->last = edge_earliest;
}

static inline void edges_add(edges *s, i64 cap, i64 acq, f64 x) {
  edge e = {cap, acq, x};
  s->count++;
  if (cap <= s->first.cap && edge_before(&e, &s->first)) s->first = e;
  if (cap >= s->last.cap && edge_before(&s->last, &e)) s->last = e;
}

static inline void edges_merge(edges *s, const edges *o) {
  if (!o->count) return;
  s->count += o->count;
  if (edge_before(&o->first, &s->first)) s->first = o->first;
  if (edge_before(&s->last, &o->last)) s->last = o->last;
}

static inline void edges_add_batch(const pentad_batch *b, const f64 *x, edges *states) {
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    edges s = states[r.gid];
    for (u32 i = r.from; i < r.to; i++) edges_add(&s, b->cap[i], b->acq[i], x[i]);
    states[r.gid] = s;
  }
}

#endif
