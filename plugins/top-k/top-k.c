/* top-k: the records with the greatest or the least numbers, or the devices that have them.
 *
 * A state keeps the best records so far in cells, and lists the cells by rank, the best first, and
 * where devices are ranked also by mid. A list is at most 2 KB and is moved as memory, so no record
 * costs much more than others, whatever came before it. Cells come in small chunks, so that many
 * groups which grow at the same time do not need twice the memory.
 */
#include "columns.h"

enum { MAX_K = 1000, CHUNK = 16, ROOMS = 7, SLAB = 1 << 16 };

/* Numbers are negated when the least ones are asked for. */
typedef struct { f64 x; i64 mid, cap; } entry;

typedef struct {
  u64 count;
  f64 least;    /* a number below this is not among the best; -infinity until k are kept */
  entry **chunks; /* of cells: pointers for room cells, and behind them the lists */
  u32 kept, room;
} state;

/* A state that is saved; of one without numbers nothing is. */
typedef struct { u64 count; entry best[]; } saved;

/* A result as it is written, with its size. */
typedef struct __attribute__((packed)) { u32 size; u64 count; entry best[]; } result;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_MID | PENTAD_CAP,
              sizeof(state), 8, 0, 40, PENTAD_GROWS, "top-k",
              "{\"name\":\"top-k\",\"version\":\"1\","
              "\"about\":\"records or devices with the greatest or least numbers\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"k\",\"type\":\"u64\",\"default\":\"10\",\"help\":\"how many, 1 to 1000\"},"
              "{\"name\":\"order\",\"type\":\"enum\",\"enum\":[\"greatest\",\"least\"],"
              "\"default\":\"greatest\",\"help\":\"which end\"},"
              "{\"name\":\"per\",\"type\":\"enum\",\"enum\":[\"record\",\"device\"],"
              "\"default\":\"record\",\"help\":\"device: only the best record of each mid\"}],"
              "\"result\":[{\"name\":\"count\",\"type\":\"u64\"},"
              "{\"name\":\"value\",\"type\":\"f64\",\"repeat\":true},"
              "{\"name\":\"mid\",\"type\":\"i64\",\"repeat\":true},"
              "{\"name\":\"cap\",\"type\":\"time\",\"repeat\":true}]}")

static pentad_field field;
static u32 k = 10, per_device;
static f64 sign = 1;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 40)
    return pentad_bad_params("type, offset, k, order and per must have 40 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  u64 count = pentad_u64(params + 16);
  if (!count || count > MAX_K) return pentad_bad_params("k must be 1 to 1000");
  if (pentad_u64(params + 24) > 1)
    return pentad_bad_params("order must be greatest or least, as 0 or 1");
  if (pentad_u64(params + 32) > 1)
    return pentad_bad_params("per must be record or device, as 0 or 1");
  k = (u32)count;
  sign = pentad_u64(params + 24) ? -1 : 1;
  per_device = (u32)pentad_u64(params + 32);
  return pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++) s[i] = (state){.least = -__builtin_inf()};
}

PENTAD_COLD static i32 no_memory(void) {
  pentad_message_len = 0;
  pentad_say("the best records of all groups take more memory than there is; ask for fewer groups, "
             "or a smaller k");
  return PENTAD_ENOMEM;
}

/* Lists that are free, by their room, and what is left of the memory of which new ones are cut. */
static void *free_lists[ROOMS];
static u8 *slab;
static u32 slab_left;

static void *cut(u32 size) {
  if (slab_left < size) {
    slab = (u8 *)pentad_alloc(SLAB);
    slab_left = slab ? SLAB : 0;
    if (!slab) return 0;
  }
  slab_left -= size;
  slab += size;
  return slab - size;
}

static inline u32 class_of(u32 room) { return (u32)__builtin_ctz(room / CHUNK); }

static entry **new_lists(u32 room) {
  void *lists = free_lists[class_of(room)];
  if (lists) {
    __builtin_memcpy(&free_lists[class_of(room)], lists, sizeof(void *));
    return lists;
  }
  u32 size = room / CHUNK * sizeof(entry *) + (1 + per_device) * room * sizeof(u16);
  return cut(size + 7 & ~7u);
}

static inline entry *cell_of(const state *s, u32 cell) {
  return s->chunks[cell / CHUNK] + cell % CHUNK;
}

static inline u16 *ranks_of(const state *s) { return (u16 *)(s->chunks + s->room / CHUNK); }
static inline u16 *mids_of(const state *s) { return ranks_of(s) + s->room; }
static inline entry *last_of(const state *s) { return cell_of(s, ranks_of(s)[s->kept - 1]); }

/* Makes the lists twice as long; 0 when there is no memory. */
PENTAD_COLD static u32 grow_lists(state *s) {
  state old = *s;
  u32 room = old.room ? 2 * old.room : CHUNK;
  entry **lists = new_lists(room);
  if (!lists) return 0;
  s->chunks = lists;
  s->room = room;
  if (!old.room) return 1;
  __builtin_memcpy(s->chunks, old.chunks, old.room / CHUNK * sizeof(entry *));
  __builtin_memcpy(ranks_of(s), ranks_of(&old), old.room * sizeof(u16));
  if (per_device) __builtin_memcpy(mids_of(s), mids_of(&old), old.room * sizeof(u16));
  __builtin_memcpy(old.chunks, &free_lists[class_of(old.room)], sizeof(void *));
  free_lists[class_of(old.room)] = old.chunks;
  return 1;
}

/* Makes a cell for one more entry; 0 when there is no memory. */
static u32 new_cell(state *s) {
  if (s->kept % CHUNK == 0) {
    if (s->kept == s->room && !grow_lists(s)) return 0;
    entry *chunk = cut((k < CHUNK ? k : CHUNK) * sizeof(entry));
    if (!chunk) return 0;
    s->chunks[s->kept / CHUNK] = chunk;
  }
  s->kept++;
  return 1;
}

static inline u32 better(const entry *a, const entry *b) {
  if (a->x != b->x) return a->x > b->x;
  if (a->cap != b->cap) return a->cap < b->cap;
  return a->mid < b->mid;
}

/* Whether there are k entries and this one is not better than the last. */
static inline u32 too_late(const state *s, const entry *e) {
  return s->kept == k && !better(e, last_of(s));
}

/* How many entries are as good as one or better. */
static u32 rank_of(const state *s, const entry *e) {
  const u16 *ranks = ranks_of(s);
  u32 low = 0, high = s->kept;
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (better(e, cell_of(s, ranks[middle])))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* How many entries have a smaller mid. */
static u32 place_of(const state *s, i64 mid) {
  const u16 *mids = mids_of(s);
  u32 low = 0, high = s->kept;
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (cell_of(s, mids[middle])->mid < mid)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Puts a cell into a list before what is at a place, in exchange for what is at another one. */
static void put(u16 *list, u32 at, u32 gone, u32 cell) {
  if (gone < at) {
    at--;
    __builtin_memmove(list + gone, list + gone + 1, (at - gone) * sizeof(u16));
  } else {
    __builtin_memmove(list + at + 1, list + at, (gone - at) * sizeof(u16));
  }
  list[at] = (u16)cell;
}

/* Puts an entry in place of a device's own, if it is better. */
static void improve(state *s, u32 cell, const entry *e) {
  entry *own = cell_of(s, cell);
  if (!better(e, own)) return;
  u32 gone = rank_of(s, own) - 1;
  put(ranks_of(s), rank_of(s, e), gone, cell);
  *own = *e;
}

/* Inserts an entry that is not too late; 0 when there is no memory. */
static __attribute__((noinline)) u32 insert(state *s, const entry *e) {
  u32 place = 0, cell = s->kept, last = s->kept, gone = s->kept;
  if (per_device && s->kept) {
    place = place_of(s, e->mid);
    u32 own = place < s->kept ? mids_of(s)[place] : 0;
    if (place < s->kept && cell_of(s, own)->mid == e->mid) {
      improve(s, own, e);
      if (s->kept == k) s->least = last_of(s)->x;
      return 1;
    }
  }
  u32 at = s->kept ? rank_of(s, e) : 0;
  if (s->kept == k) {
    last = k - 1;
    cell = ranks_of(s)[last];
    if (per_device) gone = place_of(s, cell_of(s, cell)->mid);
  } else if (!new_cell(s)) {
    return 0;
  }
  put(ranks_of(s), at, last, cell);
  if (per_device) put(mids_of(s), place, gone, cell);
  *cell_of(s, cell) = *e;
  if (s->kept == k) s->least = last_of(s)->x;
  return 1;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status;
  const f64 *numbers = pentad_numbers(b, &field, &status);
  if (!numbers) return status;
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    state *s = states + r.gid;
    for (u32 i = r.from; i < r.to; i++) {
      f64 x = numbers[i] * sign + 0.0;
      if (x != x) continue;
      s->count++;
      if (x < s->least) continue;
      entry e = {x, b->mid[i], b->cap[i]};
      if (!too_late(s, &e) && !insert(s, &e)) return no_memory();
    }
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_save) i32 pentad_save(const state *s, saved *out, u32 room) {
  u32 size = sizeof(saved) + s->kept * sizeof(entry);
  if (!s->count) return 0;
  if (size > room) return PENTAD_ECAP;
  out->count = s->count;
  for (u32 i = 0; i < s->kept; i++) out->best[i] = *cell_of(s, ranks_of(s)[i]);
  return (i32)size;
}

PENTAD_EXPORT(pentad_load) i32 pentad_load(state *s, const saved *in, u32 size) {
  if (!size) return PENTAD_OK;
  u32 n = (size - (u32)sizeof(saved)) / sizeof(entry);
  if (size < sizeof(saved) || size != sizeof(saved) + n * sizeof(entry)) return PENTAD_EPAYLOAD;
  if (n > k || n > in->count) return PENTAD_EPAYLOAD;
  for (u32 i = 0; i < n; i++) {
    const entry *e = in->best + i;
    if (e->x != e->x) return PENTAD_EPAYLOAD;
    if (!too_late(s, e) && !insert(s, e)) return no_memory();
  }
  s->count += in->count;
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, u8 *out, u32 room) {
  u8 *to = out;
  for (u32 i = 0; i < n; i++, s++) {
    u32 size = sizeof(u64) + s->kept * sizeof(entry);
    if (room - (u32)(to - out) < sizeof(u32) + size) return PENTAD_ECAP;
    result *r = (result *)to;
    r->size = size;
    r->count = s->count;
    for (u32 e = 0; e < s->kept; e++) {
      entry best = *cell_of(s, ranks_of(s)[e]);
      best.x = best.x * sign + 0.0;
      r->best[e] = best;
    }
    to += sizeof(u32) + size;
  }
  return (i32)(to - out);
}
