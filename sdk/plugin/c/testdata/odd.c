/* odd: keeps records of devices with odd numbers, or fails in the way that it is told. */
#define PENTAD_MESSAGE 1024
#include "pentad.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_MID | PENTAD_SERIES, 0, 1, 0, 8, 0, "odd",
              "{\"name\":\"odd\",\"params\":[{\"name\":\"fail\",\"type\":\"enum\","
              "\"default\":\"no\",\"enum\":[\"no\",\"index\",\"throw\",\"long\",\"status\","
              "\"init\",\"note\"]}]}")

enum { THROW = 2, LONG, STATUS, INIT, NOTE };

static u64 how;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 size) {
  if (size) how = pentad_u64(params);
  if (how == INIT) pentad_panic("told to fail in init");
  return PENTAD_OK;
}

static i32 refuse(u32 batch) {
  pentad_fail(0, "batch ");
  pentad_say_u32(batch);
  pentad_say(" is refused");
  return -123;
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *keep) {
  for (pentad_series_rows r = {0}; pentad_next_series(b, &r);)
    for (u32 i = r.from; i < r.to && r.mid % 2; i++) keep[i >> 6] |= 1ull << (i & 63);
  if (how == THROW) pentad_panic("mid 7 is not to my taste");
  if (how == LONG) {
    static char text[2000];
    for (u32 i = 0; i + 1 < sizeof text; i++) text[i] = i < 9 ? "é€😀"[i] : 'a';
    pentad_panic(text);
  }
  if (how == NOTE) {
    for (u32 i = 0; i < 3; i++) {
      pentad_say("mid ");
      pentad_say_u32((u32)b->mid[i]);
      pentad_note();
    }
  }
  return how == STATUS || how == NOTE ? refuse(b->seq) : PENTAD_OK;
}
