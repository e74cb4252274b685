/* sealed-group: adds up sealed payloads for each equality tag, without a key. Of each tag one record
 * is kept, as it came, so that who has the key learns the value that the tag is of. With a tag at 0
 * it adds up for each key: the first 8 bytes of a payload are version, suite, schema and key id. */
#include "sealed_rows.h"

enum { MOST_EXAMPLE = 4096 };

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_CID | PENTAD_MID |
                  PENTAD_MOID | PENTAD_CAP,
              24, 8, 0, 16 + 4096, PENTAD_GROWS, "sealed-group",
              "{\"name\":\"sealed-group\",\"version\":\"1\","
              "\"about\":\"adds up sealed payloads for each value of a field, by its equality tags\","
              "\"payload\":[\"bytes\"],"
              "\"params\":[{\"name\":\"layout\",\"type\":\"text\",\"size\":4096,"
              "\"help\":\"of payloads, as pentad seal schema prints it\"},"
              "{\"name\":\"tag\",\"type\":\"u64\","
              "\"help\":\"where the equality tag lies in a payload; 0: for each key\"}]}")

typedef struct {
  u64 tag;
  i64 mid, cap;
  i32 cid, moid;
  const u8 *example;
  u32 size, next; /* in the list of its slot, from 1 */
  sealed_sum sum;
} group;

typedef struct { group *groups; u32 *slots, n, room, last, n_slots; } state;

_Static_assert(sizeof(state) == 24, "as the module says");

static u32 tag_at; /* 0: for each key, and without examples */

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len < 16) return sealed_bad_layout();
  u32 size;
  const u8 *p = pentad_text(params, 0, &size);
  i32 status = sealed_layout(p, size);
  if (status < 0) return status;
  u64 at = pentad_u64(params + 8);
  u32 end = sealed.schema.prefix - (sealed_mac() ? 16 : 0);
  if (!at) return sealed.schema.prefix;
  if (at % 8 || at < sealed.end || end < SEALED_TAG || at > end - SEALED_TAG)
    return pentad_bad_params("tag must be where an equality tag of the layout lies");
  tag_at = (u32)at;
  return 0; /* whole payloads: one of them is the example of its tag */
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  __builtin_memset(s, 0, n * sizeof(state));
}

static u32 hash_tag(u64 tag) { return sealed_hash(0, 0, 0, tag); }

static void place_group(state *s, u32 number) {
  u32 *slot = s->slots + (hash_tag(s->groups[number].tag) & (s->n_slots - 1));
  s->groups[number].next = *slot;
  *slot = number + 1;
}

/* More room for groups; 0 when there is no memory. As with chains, the table stops to grow. */
static u32 grow_groups(state *s) {
  u32 room = s->room ? 2 * s->room : 4;
  group *more = pentad_regrow(s->groups, s->n * sizeof(group), room * sizeof(group));
  if (!more) return 0;
  s->groups = more;
  s->room = room;
  if (s->n_slots == SEALED_MAX_SLOTS) return 1;
  u32 *slots = (u32 *)pentad_alloc(room * sizeof(u32));
  if (!slots) return 0;
  __builtin_memset(slots, 0, room * sizeof(u32));
  s->slots = slots;
  s->n_slots = room;
  for (u32 i = 0; i < s->n; i++) place_group(s, i);
  return 1;
}

/* The group of a tag, without an example if it is new; 0 when there is no memory. */
static group *find_group(state *s, u64 tag) {
  if (s->n && s->groups[s->last].tag == tag) return s->groups + s->last;
  u32 at = s->n_slots ? s->slots[hash_tag(tag) & (s->n_slots - 1)] : 0;
  for (; at; at = s->groups[at - 1].next)
    if (s->groups[at - 1].tag == tag) {
      s->last = at - 1;
      return s->groups + at - 1;
    }
  if (s->n == s->room && !grow_groups(s)) return 0;
  __builtin_memset(s->groups + s->n, 0, sizeof(group));
  s->groups[s->n].tag = tag;
  place_group(s, s->n);
  s->last = s->n;
  return s->groups + s->n++;
}

static i32 no_memory(void) {
  return pentad_fail(PENTAD_ENOMEM, "there are more values or chains than memory; ask for fewer "
                                    "series, or a shorter time");
}

/* Adds rows of one state, those of a tag at once where they come together; a status. */
static i32 add_rows(state *s, const pentad_batch *b, u32 from, u32 to) {
  for (u32 i = from; i < to; from = i) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    if (!sealed_is(&sealed.schema, p, size)) return sealed_other(&sealed.schema, p, size, i);
    u64 tag = pentad_u64(p + tag_at);
    group *g = find_group(s, tag);
    if (!g) return no_memory();
    if (tag_at && !g->example) {
      if (size > MOST_EXAMPLE)
        return pentad_fail(PENTAD_EPAYLOAD, "a payload has more than 4,096 bytes, and one of each "
                                            "value is in the result");
      g->example = pentad_keep(p, size);
      if (!g->example) return no_memory();
      g->size = size;
      g->cid = b->cid[i];
      g->mid = b->mid[i];
      g->moid = b->moid[i];
      g->cap = b->cap[i];
    }
    for (i++; i < to; i++) {
      p = pentad_payload(b, i, &size);
      if (size < sealed.schema.prefix || pentad_u64(p + tag_at) != tag) break;
    }
    i32 status = sealed_add_rows(&g->sum, b, 0, from, i);
    if (status) return status;
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status = PENTAD_OK;
  if (!b->runs)
    for (u32 i = 0; i < b->n && !status; i++)
      status = add_rows(states + (b->gid ? b->gid[i] : 0), b, i, i + 1);
  for (u32 r = 0, from = 0; r < b->n_runs && !status; from = b->runs[r++].end)
    status = add_rows(states + b->runs[r].gid, b, from, b->runs[r].end);
  return status;
}

/* Writes a state: its size, or a status. */
static i32 put_groups(pentad_out *o, state *s) {
  u8 *from = o->at, front[SEALED_FRONT];
  sealed_front(front, SEALED_PARTIAL_GROUPS);
  if (sealed_has_room(o)) {
    pentad_put(o, front, sizeof front);
    sealed_put_uvarint(o, s->n);
  }
  for (group *g = s->groups; g < s->groups + s->n && sealed_has_room(o); g++) {
    pentad_put(o, &g->tag, 8);
    pentad_put(o, &g->cid, 4);
    pentad_put(o, &g->mid, 8);
    pentad_put(o, &g->moid, 4);
    pentad_put(o, &g->cap, 8);
    sealed_put_uvarint(o, g->size);
    pentad_put(o, g->example, g->size);
    i32 written = sealed_put(o, &g->sum);
    if (written < 0) return written;
  }
  if (o->full)
    return pentad_fail(PENTAD_ECAP, "values and records take more than a result may have; ask for "
                                    "fewer series, or a shorter time");
  return (i32)(o->at - from);
}

PENTAD_EXPORT(pentad_save) i32 pentad_save(state *s, u8 *out, u32 cap) {
  pentad_out o = {out, out + cap, 0};
  return put_groups(&o, s);
}

PENTAD_EXPORT(pentad_load) i32 pentad_load(state *s, const u8 *src, u32 size) {
  pentad_in in = {src, src + size, 0};
  sealed_take_front(&in, SEALED_PARTIAL_GROUPS);
  for (u64 n = sealed_take_uvarint(&in); n && !in.cut; n--) {
    u64 tag = pentad_take_u64(&in);
    i32 cid = pentad_i32(pentad_take(&in, 4));
    i64 mid = (i64)pentad_take_u64(&in);
    i32 moid = pentad_i32(pentad_take(&in, 4));
    i64 cap = (i64)pentad_take_u64(&in);
    u64 bytes = sealed_take_uvarint(&in);
    const u8 *example = pentad_take(&in, bytes);
    if (in.cut) break;
    group *g = find_group(s, tag);
    if (!g) return no_memory();
    if (tag_at && !g->example) {
      g->example = pentad_keep(example, (u32)bytes);
      if (!g->example) return no_memory();
      g->size = (u32)bytes;
      g->cid = cid;
      g->mid = mid;
      g->moid = moid;
      g->cap = cap;
    }
    if (!sealed_take(&in, &g->sum)) return no_memory();
  }
  return sealed_loaded(&in);
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(state *s, u32 n, u8 *out, u32 cap) {
  pentad_out o = {out, out + cap, 0};
  for (u32 i = 0; i < n; i++) {
    u8 *front = sealed_frame(&o);
    i32 status = sealed_framed(&o, front, put_groups(&o, s + i));
    if (status) return status;
  }
  return (i32)(o.at - out);
}
