// growing: what states that grow are made of, and how they are saved. It lies beside pentad.ts, for
// a module that imports it.
//
// What a state owns may be objects: with --runtime stub they live until the instance ends, and the
// address of one, changetype<usize>(object), is a number in the bytes of the state. Before objects
// are made by the thousand, hasRoom says whether there is memory; without it the compiler's
// allocator traps.
import { pentad_alloc } from "./pentad";

/** Whether size bytes of memory are left to be had. */
export function hasRoom(size: u32): bool {
  const top = heap.alloc(0);
  heap.free(top);
  const end = <u64>top + size + 64, have = (<u64>memory.size()) << 16;
  return end <= have || memory.grow(<i32>((end - have + 65535) >> 16)) >= 0;
}

let slab: usize = 0;
let left: u32 = 0;
const SLAB_SIZE: u32 = 4096;

/** A copy of bytes that lives until the instance ends, 0 when there is no memory. */
export function keepBytes(from: usize, size: u32): usize {
  if (!slab || size > left) {
    left = max(size, SLAB_SIZE);
    slab = pentad_alloc(left);
    if (!slab) return 0;
  }
  const at = slab;
  memory.copy(at, from, size);
  slab += size;
  left -= size;
  return at;
}

/** Compares bytes: below 0, 0 or above it, as the first lie before the others, are them or not. */
export function compareBytes(a: usize, aSize: u32, b: usize, bSize: u32): i32 {
  const n = min(aSize, bSize);
  for (let i: u32 = 0; i < n; i++) {
    const x = <i32>load<u8>(a + i), y = <i32>load<u8>(b + i);
    if (x != y) return x - y;
  }
  return i32(aSize > bSize) - i32(aSize < bSize);
}

/** Results that differ in size and saved states, as they are written. What does not fit is left
 * out, and full says so. */
export class Out {
  full: bool = false;
  private end: usize;

  constructor(public at: usize, room: u32) {
    this.end = at + room;
  }

  bytes(from: usize, size: u32): void {
    if (<usize>size > this.end - this.at) {
      this.full = true;
      return;
    }
    memory.copy(this.at, from, size);
    this.at += size;
  }

  u64(v: u64): void {
    if (this.end - this.at < 8) {
      this.full = true;
      return;
    }
    store<u64>(this.at, v);
    this.at += 8;
  }

  /** A text as documents mean it: its size, its bytes and zeros up to a multiple of 8. */
  text(from: usize, size: u32): void {
    this.u64(size);
    this.bytes(from, size);
    for (let n: u32 = -size & 7; n; n--) {
      if (this.at == this.end) {
        this.full = true;
        return;
      }
      store<u8>(this.at++, 0);
    }
  }
}

/** A saved state, as it is read. What ends too early reads as nothing, and cut says so. */
export class In {
  cut: bool = false;
  private end: usize;
  /** The size of the last text. */
  size: u32 = 0;

  constructor(private at: usize, size: u32) {
    this.end = at + size;
  }

  @inline
  isEmpty(): bool {
    return this.at == this.end;
  }

  /** Passes over bytes and returns where they start, 0 when there are not as many. */
  take(size: u64): usize {
    if (size > <u64>(this.end - this.at)) {
      this.cut = true;
      this.at = this.end;
      return 0;
    }
    const at = this.at;
    this.at += <usize>size;
    return at;
  }

  u64(): u64 {
    const at = this.take(8);
    return this.cut ? 0 : load<u64>(at);
  }

  /** Where the next text starts; size is its size. */
  text(): usize {
    const size = this.u64();
    const at = this.take(size);
    this.size = this.cut ? 0 : <u32>size;
    this.take(-this.size & 7);
    return at;
  }
}
