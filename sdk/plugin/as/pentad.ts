// pentad: the guest half of pentad's plugin ABI, version 1, for AssemblyScript.
//
// Put this file beside the one source file of a module, which says
//
//   export { pentad_abi_1, pentad_alloc, pentad_error } from "./pentad";
//
// and exports pentad_describe, pentad_init and the functions of a filter or an aggregate. ABI.md
// says what each of them is given; growing.ts is for states that grow. A module is built with
//
//   asc plugin.ts -O3 --noAssert --runtime stub --use abort=pentad/panic
//
// so that an error that is thrown ends the query and shows its text to whoever asked. Memory is
// never freed: what is called for records should not make objects, but for what states that grow
// keep.

/** Statuses. Modules may use -100 and below. */
export const OK: i32 = 0;
export const EPARAM: i32 = -1;
export const EPAYLOAD: i32 = -2;
export const ECAP: i32 = -3;
export const ENOMEM: i32 = -4;
export const EUNSUPPORTED: i32 = -5;

export const FILTER: u32 = 1;
export const AGGREGATE: u32 = 2;

/** What of a batch a module needs. */
export const CID: u32 = 1;
export const MOID: u32 = 2;
export const MID: u32 = 4;
export const CAP: u32 = 8;
export const ACQ: u32 = 16;
export const GID: u32 = 32;
export const OFFSETS: u32 = 64; // of payloads, together with DATA
export const DATA: u32 = 128;
export const RUNS: u32 = 256;
export const SERIES: u32 = 512;

/** Flags of a descriptor. */
export const MERGE_ORDERED: u32 = 1;
export const DEPENDS_ON_BATCHES: u32 = 2;
export const GROWS: u32 = 4;
export const LINKS_PREDECESSORS: u32 = 8;

/** What pentad_describe points to. */
@unmanaged
export class Descriptor {
  magic: u32;
  major: u16;
  minor: u16;
  kinds: u32;
  need: u32;
  stateSize: u32;
  stateAlign: u32;
  resultSize: u32;
  paramsMax: u32;
  flags: u32;
  maxBatch: u32;
  name: usize;
  nameSize: u32;
  doc: usize;
  docSize: u32;
  zero0: u32;
  zero1: u32;
}

/** A descriptor with a name and a document in JSON; the module sets the other fields. */
export function descriptor(kinds: u32, need: u32, name: string, doc: string): Descriptor {
  const d = changetype<Descriptor>(memory.data(64, 64));
  d.magic = 0x31445450;
  d.major = 1;
  d.kinds = kinds;
  d.need = need;
  d.stateAlign = 1;
  const utf8Name = String.UTF8.encode(name), utf8Doc = String.UTF8.encode(doc);
  d.name = changetype<usize>(utf8Name);
  d.nameSize = <u32>utf8Name.byteLength;
  d.doc = changetype<usize>(utf8Doc);
  d.docSize = <u32>utf8Doc.byteLength;
  return d;
}

/** The columns of one call, as addresses; those that were not asked for are 0. */
@unmanaged
export class Batch {
  magic: u32;
  rows: u32;
  flags: u32;
  present: u32;
  cid: usize; // i32[rows]
  moid: usize; // i32[rows]
  mid: usize; // i64[rows]
  cap: usize; // i64[rows], nanoseconds since 1970
  acq: usize; // i64[rows], nanoseconds since 1970
  gid: usize; // u32[rows], the group of each row; 0 when there are runs
  offsets: usize; // u32[rows + 1]
  data: usize;
  dataSize: u32;
  stride: u32; // the size of every payload, 0 if they differ or are empty
  groups: u32;
  runCount: u32;
  runs: usize; // {u32 gid, u32 end}[runCount]
  seq: u32;
  seriesCount: u32;
  series: usize; // {i64 mid, i32 cid, i32 moid, u64 end}[seriesCount]; 0 when there are columns

  /** The group of row i. */
  @inline
  group(i: u32): u32 {
    return load<u32>(this.gid + ((<usize>i) << 2));
  }

  /** Where payload i starts. */
  @inline
  payload(i: u32): usize {
    if (this.stride) return this.data + <usize>i * this.stride;
    return this.data + load<u32>(this.offsets + ((<usize>i) << 2));
  }

  /** The size of payload i. */
  @inline
  size(i: u32): u32 {
    if (this.stride) return this.stride;
    const at = this.offsets + ((<usize>i) << 2);
    return load<u32>(at, 4) - load<u32>(at);
  }

  @inline
  runGroup(r: u32): u32 {
    return load<u32>(this.runs + ((<usize>r) << 3));
  }

  /** The row after the last of run r. */
  @inline
  runEnd(r: u32): u32 {
    return load<u32>(this.runs + ((<usize>r) << 3), 4);
  }

  @inline
  seriesMid(s: u32): i64 {
    return load<i64>(this.series + (<usize>s) * 24);
  }

  @inline
  seriesCid(s: u32): i32 {
    return load<i32>(this.series + (<usize>s) * 24, 8);
  }

  @inline
  seriesMoid(s: u32): i32 {
    return load<i32>(this.series + (<usize>s) * 24, 12);
  }

  /** The row after the last of series s. */
  @inline
  seriesEnd(s: u32): u32 {
    return load<u32>(this.series + (<usize>s) * 24, 16);
  }
}

/** Where parameter i starts, which is a text, until pentad_init returns. */
@inline
export function textParam(params: usize, i: u32): usize {
  return params + load<u32>(params + ((<usize>i) << 3));
}

/** The size of parameter i, which is a text. */
@inline
export function textParamSize(params: usize, i: u32): u32 {
  return load<u32>(params + ((<usize>i) << 3), 4);
}

/** Keeps row i of a filter's bitmap. */
@inline
export function keep(bitmap: usize, i: u32): void {
  const at = bitmap + ((<usize>(i >> 6)) << 3);
  store<u64>(at, load<u64>(at) | ((<u64>1) << (i & 63)));
}

/** Types of numbers in payloads, in the order of the enum f64, f32, i64, i32, u32. */
export const F64: u32 = 0;
export const F32: u32 = 1;
export const I64: u32 = 2;
export const I32: u32 = 3;
export const U32: u32 = 4;
export const NUMBER_TYPES: u32 = 5;

@inline
export function numberSize(type: u32): u32 {
  return type == F64 || type == I64 ? 8 : 4;
}

@inline
export function numberAt(at: usize, type: u32): f64 {
  switch (type) {
    case F32: return <f64>load<f32>(at);
    case I64: return <f64>load<i64>(at);
    case I32: return <f64>load<i32>(at);
    case U32: return <f64>load<u32>(at);
    default: return load<f64>(at);
  }
}

/** Not-a-number has many bits, and processors differ in them; results have always the same. */
@inline
export function canonical(x: f64): f64 {
  return x == x ? x : reinterpret<f64>(0x7ff8000000000000);
}

const MESSAGE_SIZE: u32 = 1024;
const message = memory.data(1024);
let messageSize: u32 = 0;
let noted: u32 = 0; // of the message, lines that stay

function sayByte(b: u32): void {
  if (messageSize == MESSAGE_SIZE) return;
  store<u8>(message + messageSize, b);
  messageSize++;
}

// Errors may come in the smallest of batches, whose budget String.UTF8.encode would use up: a loop
// pays for all that stands in it, so that the common one is short.

/** Adds to the text behind a negative status. */
export function say(text: string): void {
  const end = changetype<usize>(text) + (<usize>text.length << 1);
  for (let at = changetype<usize>(text); at < end; at += 2) {
    while (at < end && load<u16>(at) < 0x80 && messageSize < MESSAGE_SIZE) {
      store<u8>(message + messageSize++, load<u8>(at));
      at += 2;
    }
    if (at >= end || messageSize == MESSAGE_SIZE) return;
    let c: u32 = load<u16>(at);
    if ((c & 0xfc00) == 0xd800 && at + 2 < end) {
      at += 2;
      c = 0x10000 + ((c & 0x3ff) << 10 | <u32>load<u16>(at) & 0x3ff);
      sayByte(0xf0 | c >> 18);
      sayByte(0x80 | c >> 12 & 0x3f);
    } else if (c >= 0x800) {
      sayByte(0xe0 | c >> 12);
    }
    sayByte(c < 0x800 ? 0xc0 | c >> 6 : 0x80 | c >> 6 & 0x3f);
    sayByte(0x80 | c & 0x3f);
  }
}

export function sayNumber(n: u32): void {
  if (n >= 10) sayNumber(n / 10);
  sayByte(48 + n % 10);
}

/** Keeps a line that is shown before the text of an error, if the query ends in one. Lines beyond
 * half of the room are left out. */
export function note(line: string): void {
  messageSize = noted;
  say(line);
  say("\n");
  if (messageSize <= MESSAGE_SIZE / 2) noted = messageSize;
  messageSize = noted;
}

/** Keeps the text behind a negative status, and returns that. */
export function fail(status: i32, text: string): i32 {
  messageSize = noted;
  say(text);
  return status;
}

/** Fails for row i, whose payload of size bytes ends before byte want. */
export function shortPayload(i: u32, size: u32, want: u32): i32 {
  fail(EPAYLOAD, "record ");
  sayNumber(i);
  say(" of the batch has a payload of ");
  sayNumber(size);
  say(" bytes, the number ends at byte ");
  sayNumber(want);
  return EPAYLOAD;
}

/** What the compiler calls for an error that is thrown. */
export function panic(text: string | null, file: string | null, line: u32, column: u32): void {
  fail(0, text ? text : "panic");
  say(" at ");
  say(file ? file : "?");
  say(":");
  sayNumber(line);
  say(":");
  sayNumber(column);
  unreachable();
}

/** The text behind the last negative status or panic. */
export function pentad_error(): u64 {
  return (<u64>message) << 32 | messageSize;
}

/** Memory that lives until the instance ends, 0 when there is none. */
export function pentad_alloc(size: u32): usize {
  const tail: u64 = 256; // for the header of the allocation, alignment and loads beyond the end
  const end = <u64>heap.alloc(0) + size + tail, have = (<u64>memory.size()) << 16;
  if (end > u32.MAX_VALUE) return 0;
  if (end > have && memory.grow(<i32>((end - have + 65535) >> 16)) < 0) return 0;
  return (heap.alloc(<usize>size + 128) + 63) & ~<usize>63;
}

export function pentad_abi_1(): void {}
