/* PLUGIN_NAME: the different texts in payloads, how often each came, and which one held when a
 * window began.
 *
 * pentad.h says what there is; the functions below are called by the node, in this order:
 * pentad_init once, pentad_state_init for new groups, pentad_add for each batch, pentad_save and
 * pentad_load for what goes from one instance to another, pentad_link_predecessor, pentad_finish at
 * the end.
 */
#include "pentad.h"

enum { MAX_TEXT = 32 }; /* bytes: to compare long ones takes more fuel than a row has */

typedef struct { const u8 *at; u32 size; } text;

typedef struct { text text; u64 count; } entry;

/* What is kept of each group. It lives in this instance and leaves it by pentad_save alone, so it
 * may hold addresses of what it owns. */
typedef struct {
  i64 cap;           /* of the last text */
  text last, preceding; /* preceding: the last one before the window */
  entry *entries;    /* in the order of their bytes */
  u32 used, room;
} state;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_CAP | PENTAD_OFFSETS | PENTAD_DATA, /* what add reads */
              sizeof(state), 8,                                       /* and its alignment */
              0,     /* bytes of a result: they differ */
              8 + 8, /* bytes of parameters: of a text 8, and the most that it has */
              PENTAD_GROWS | PENTAD_LINKS_PREDECESSORS, "PLUGIN_NAME",
              "{\"name\":\"PLUGIN_NAME\",\"version\":\"1\","
              "\"about\":\"texts and how often each came\",\"payload\":[\"bytes\"],\"params\":["
              "{\"name\":\"until\",\"type\":\"text\",\"size\":8,\"default\":\";\","
              "\"help\":\"texts end before it, or with the payload\"}],\"result\":["
              "{\"name\":\"before\",\"type\":\"text\"},{\"name\":\"texts\",\"type\":\"u64\"},"
              "{\"name\":\"text\",\"type\":\"text\",\"repeat\":true},"
              "{\"name\":\"count\",\"type\":\"u64\",\"repeat\":true}]}")

static text until = {(const u8 *)";", 1};

static i32 no_memory(void) { return pentad_fail(PENTAD_ENOMEM, "no memory is left for texts"); }

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return PENTAD_OK; /* all defaults */
  const u8 *given = pentad_text(params, 0, &until.size);
  until.at = pentad_keep(given, until.size); /* parameters are gone after this call */
  return until.at ? PENTAD_OK : no_memory();
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++) s[i] = (state){.cap = -__LONG_LONG_MAX__ - 1};
}

static i32 compare(text a, text b) {
  for (u32 i = 0; i < a.size && i < b.size; i++)
    if (a.at[i] != b.at[i]) return a.at[i] < b.at[i] ? -1 : 1;
  return (a.size > b.size) - (a.size < b.size);
}

/* What stands in a payload before until. */
static text cut(text payload) {
  if (payload.size > MAX_TEXT) payload.size = MAX_TEXT;
  if (until.size)
    for (u32 i = 0; i + until.size <= payload.size; i++)
      if (compare((text){payload.at + i, until.size}, until) == 0) return (text){payload.at, i};
  return payload;
}

/* The entry of a text, which is made if there is none; 0 when there is no memory. */
static entry *entry_of(state *s, text t) {
  u32 from = 0, to = s->used;
  while (from < to) {
    u32 middle = (from + to) / 2;
    i32 order = compare(s->entries[middle].text, t);
    if (order == 0) return s->entries + middle;
    if (order < 0) from = middle + 1;
    else to = middle;
  }
  if (s->used == s->room) {
    u32 room = s->room ? 2 * s->room : 4;
    entry *grown = pentad_regrow(s->entries, s->used * sizeof(entry), room * sizeof(entry));
    if (!grown) return 0;
    s->entries = grown;
    s->room = room;
  }
  t.at = pentad_keep(t.at, t.size);
  if (!t.at) return 0;
  entry *e = s->entries + from;
  __builtin_memmove(e + 1, e, (s->used++ - from) * sizeof(entry));
  *e = (entry){t, 0};
  return e;
}

/* Of texts at the same time the greatest is the last, so that the order of rows is nothing to the
 * result. */
static void saw(state *s, i64 cap, text t) {
  if (cap < s->cap || (cap == s->cap && compare(t, s->last) <= 0)) return;
  s->cap = cap;
  s->last = t;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  for (u32 i = 0; i < b->n; i++) {
    text t;
    t.at = pentad_payload(b, i, &t.size);
    state *s = states + b->gid[i];
    entry *e = entry_of(s, cut(t));
    if (!e) return no_memory();
    e->count++;
    saw(s, b->cap[i], e->text);
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_save) i32 pentad_save(const state *s, u8 *out, u32 room) {
  pentad_out o = {out, out + room, 0};
  pentad_put_u64(&o, (u64)s->cap);
  pentad_put_text(&o, s->last.at, s->last.size);
  for (u32 i = 0; i < s->used; i++) {
    pentad_put_u64(&o, s->entries[i].count);
    pentad_put_text(&o, s->entries[i].text.at, s->entries[i].text.size);
  }
  return o.full ? PENTAD_ECAP : (i32)(o.at - out);
}

PENTAD_EXPORT(pentad_load) i32 pentad_load(state *s, const u8 *saved, u32 size) {
  pentad_in in = {saved, saved + size, 0};
  i64 cap = (i64)pentad_take_u64(&in);
  text last;
  last.at = pentad_take_text(&in, &last.size);
  last.at = pentad_keep(last.at, last.size); /* what the host wrote is gone after this call */
  if (!last.at) return no_memory();
  while (in.at < in.end) {
    u64 count = pentad_take_u64(&in);
    text t;
    t.at = pentad_take_text(&in, &t.size);
    if (in.cut) break;
    entry *e = entry_of(s, t);
    if (!e) return no_memory();
    e->count += count;
  }
  if (in.cut) return pentad_fail(PENTAD_EPAYLOAD, "a saved state ends too early");
  saw(s, cap, last);
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_link_predecessor)
i32 pentad_link_predecessor(state *s, const state *predecessor) {
  s->preceding = predecessor->used ? predecessor->last : predecessor->preceding;
  return PENTAD_OK;
}

/* The host gives one state at a time, as they grow. */
PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, u8 *out, u32 room) {
  if (n != 1) pentad_panic("finish takes one state");
  pentad_out o = {out, out + room, 0};
  u32 size = 0; /* of the result, which stands before it */
  pentad_put(&o, &size, 4);
  pentad_put_text(&o, s->preceding.at, s->preceding.size);
  pentad_put_u64(&o, s->used);
  for (u32 i = 0; i < s->used; i++) {
    pentad_put_text(&o, s->entries[i].text.at, s->entries[i].text.size);
    pentad_put_u64(&o, s->entries[i].count);
  }
  if (o.full) return PENTAD_ECAP;
  size = (u32)(o.at - out) - 4;
  __builtin_memcpy(out, &size, 4);
  return (i32)(o.at - out);
}
