// odd: keeps records of devices with odd numbers, or fails in the way that it is told.
import { Batch, Descriptor, FILTER, MID, OK, SERIES, descriptor, fail, keep, note } from "./pentad";

export { pentad_abi_1, pentad_alloc, pentad_error } from "./pentad";

export function pentad_describe(): Descriptor {
  const d = descriptor(FILTER, MID | SERIES, "odd", `{"name":"odd","params":[{"name":"fail","type":"enum",
    "default":"no","enum":["no","index","throw","long","status","init","note"]}]}`);
  d.paramsMax = 8;
  return d;
}

let how: u64 = 0;

export function pentad_init(params: usize, size: u32): i32 {
  if (size) how = load<u64>(params);
  if (how == 5) throw new Error("told to fail in init");
  return OK;
}

export function pentad_filter(b: Batch, bitmap: usize): i32 {
  let i: u32 = 0;
  for (let s: u32 = 0; s < b.seriesCount; s++) {
    for (const odd = b.seriesMid(s) % 2 != 0, end = b.seriesEnd(s); i < end; i++) {
      if (odd) keep(bitmap, i);
    }
  }
  for (; i < b.rows; i++) {
    if (load<i64>(b.mid + ((<usize>i) << 3)) % 2 != 0) keep(bitmap, i);
  }
  if (how == 1) return [OK][b.rows];
  if (how == 2) throw new Error("mid " + load<i64>(b.mid).toString() + " is not to my taste");
  if (how == 3) throw new Error("é€😀" + "a".repeat(2000));
  if (how == 6) {
    for (let i: u32 = 0; i < b.rows; i++) note("mid " + load<i64>(b.mid + (i << 3)).toString());
  }
  if (how == 4 || how == 6) return fail(-123, "batch " + b.seq.toString() + " is refused");
  return OK;
}
