/* PLUGIN_NAME: the mean of an f64 in the payload of each record.
 *
 * pentad.h says what there is; the functions below are called by the node, in this order:
 * pentad_init once, pentad_state_init for new groups, pentad_add for each batch, pentad_merge for
 * states of other instances, pentad_finish at the end.
 */
#include "pentad.h"

/* What is kept of each group. States travel between instances as bytes, so there are no pointers
 * and no padding in them. */
typedef struct { u64 count; f64 sum; } state;

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_OFFSETS | PENTAD_DATA, /* what add reads */
              sizeof(state), 8,                                            /* and its alignment */
              8,                         /* bytes of a result: 8 for each field, 0 if they differ */
              8,                         /* bytes of parameters: 8 for each */
              PENTAD_DEPENDS_ON_BATCHES, /* sums of floating-point numbers do, in the last bit */
              "PLUGIN_NAME",
              "{\"name\":\"PLUGIN_NAME\",\"version\":\"1\",\"about\":\"mean of a number\","
              "\"payload\":[\"f64\"],\"params\":["
              "{\"name\":\"offset\",\"type\":\"u64\",\"default\":\"0\","
              "\"help\":\"where the number starts in the payload\"}],"
              "\"result\":[{\"name\":\"mean\",\"type\":\"f64\"}]}")

static u32 offset;

/* Returns how much is read at the front of payloads, 0 for all: the rest need not be decoded. */
PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return 8; /* all defaults */
  if (len != 8) return pentad_bad_params("offset must have 8 bytes");
  u64 at = pentad_u64(params);
  if (at > 1u << 25) return pentad_bad_params("offset must be at most 33554432");
  offset = (u32)at;
  return (i32)offset + 8;
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++) s[i] = (state){0, 0};
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  for (u32 i = 0; i < b->n; i++) {
    u32 size;
    const u8 *payload = pentad_payload(b, i, &size);
    if (size < offset + 8) return pentad_short_payload(i, size, offset + 8);
    state *s = states + b->gid[i];
    s->count++;
    s->sum += pentad_f64(payload + offset);
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) {
    dst[i].count += src[i].count;
    dst[i].sum += src[i].sum;
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, f64 *out, u32 room) {
  if (room / 8 < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) {
    f64 mean = s[i].sum / (f64)s[i].count;
    out[i] = mean == mean ? mean : __builtin_nan(""); /* always the same bits */
  }
  return (i32)(n * 8);
}
