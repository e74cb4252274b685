//! pentad: the guest half of pentad's plugin ABI, version 1, for Rust without std.
//!
//! Put this file, exports.rs and growing.rs beside the one source file of a module, which says
//! `mod pentad;`, implement [`Aggregate`], [`Growing`] or [`Filter`], and name the type once:
//! `pentad::aggregate!(Mean);`, `growing!` or `filter!`. ABI.md says what they are given. A
//! panic ends the query and shows its text to whoever asked.
//!
//! A module has one thread, and memory is never freed: what is called for records should not need
//! any, but for what states that grow keep.
#![allow(dead_code, unused_macros, unused_imports)] // no module uses all of it

use core::fmt::{self, Write};
use core::ptr::{addr_of, addr_of_mut};
use core::slice;

#[path = "exports.rs"]
mod exports;
#[path = "growing.rs"]
mod growing;

pub use exports::*;
pub(crate) use exports::{aggregate, export_all, filter, growing};
pub use growing::*;

/// What of a batch a module needs.
pub const CID: u32 = 1;
pub const MOID: u32 = 2;
pub const MID: u32 = 4;
pub const CAP: u32 = 8;
pub const ACQ: u32 = 16;
pub const GID: u32 = 32;
pub const OFFSETS: u32 = 64; // of payloads, together with DATA
pub const DATA: u32 = 128;
pub const RUNS: u32 = 256;
pub const SERIES: u32 = 512;

/// Flags of a description. The macros add those of states that grow or link predecessors.
pub const MERGE_ORDERED: u32 = 1;
pub const DEPENDS_ON_BATCHES: u32 = 2;
pub const GROWS: u32 = 4;
pub const LINKS_PREDECESSORS: u32 = 8;

/// Statuses of an error. Modules may use -100 and below.
pub const EPARAM: i32 = -1;
pub const EPAYLOAD: i32 = -2;
pub const ECAP: i32 = -3;
pub const ENOMEM: i32 = -4;
pub const EUNSUPPORTED: i32 = -5;

/// What a module says of itself when it is uploaded.
pub struct Description {
    pub name: &'static str,
    pub doc: &'static str, // JSON
    pub need: u32,
    pub flags: u32,
    pub params: u32,      // bytes of parameters: 8 for each, and the most that texts have
    pub result_size: u32, // bytes of a result, 0 if they differ
    pub max_batch: u32,   // most rows of a batch that are welcome, 0 for as many as the host likes
}

/// Folds records into states and turns these into results.
pub trait Aggregate: Sized {
    /// Numbers and arrays of them, `#[repr(C)]` and without padding. Its bytes travel between
    /// instances, so they mean the same everywhere.
    type State: Copy + 'static;
    const DESCRIPTION: Description;
    /// Takes the parameters, once.
    fn new(params: Params) -> Result<Self, Error>;
    /// How many bytes at the front of payloads are read at most, 0 for all: a node need not decode
    /// what lies behind.
    fn front(&self) -> usize { 0 }
    /// Returns a state that has seen no records.
    fn fresh(&self) -> Self::State;
    /// Folds row i into the state of its group.
    fn add(&self, b: &Batch, states: &mut [Self::State]) -> Result<(), Error>;
    /// Folds src into dst.
    fn merge(&self, dst: &mut Self::State, src: &Self::State) -> Result<(), Error>;
    /// Writes the result of a state.
    fn finish(&self, s: &Self::State, out: &mut Out);
}

/// What an [`Aggregate`] or [`Growing`] implements in addition, whose states need their
/// predecessors: `aggregate!(Step, links_predecessors)`. ABI.md says which states these are.
pub trait PredecessorLinker<State> {
    /// Takes from the predecessor of s what s needs. The predecessor stays as it is.
    fn link_predecessor(&self, s: &mut State, predecessor: &State) -> Result<(), Error>;
}

/// Decides which records are kept.
pub trait Filter: Sized {
    const DESCRIPTION: Description;
    /// Takes the parameters, once.
    fn new(params: Params) -> Result<Self, Error>;
    /// How many bytes at the front of payloads are read at most, 0 for all: a node need not decode
    /// what lies behind.
    fn front(&self) -> usize { 0 }
    /// Sets the bits of the rows that are kept; all are clear before.
    fn filter(&self, b: &Batch, keep: &mut Bitmap) -> Result<(), Error>;
}

/// A run of rows of one group: from the end of the run before it to end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Run {
    pub gid: u32,
    pub end: u32,
}

/// A run of rows of one series: from the end of the run before it to end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Series {
    pub mid: i64,
    pub cid: i32,
    pub moid: i32,
    pub end: u64,
}

/// Rows of one group and one series, from the first up to but without the last.
#[derive(Clone, Copy)]
pub struct SeriesRows {
    pub gid: u32,
    pub mid: i64,
    pub cid: i32,
    pub moid: i32,
    pub from: usize,
    pub to: usize,
}

/// What [`Batch::series_rows`] returns.
pub struct SeriesIter<'a> {
    batch: &'a Batch,
    at: usize, // row
    run: usize,
    series: usize,
}

impl Iterator for SeriesIter<'_> {
    type Item = SeriesRows;

    fn next(&mut self) -> Option<SeriesRows> {
        let (b, i) = (self.batch, self.at);
        if i >= b.rows() {
            return None;
        }
        let first = |column: &[i32]| if column.is_empty() { 0 } else { column[i] };
        let mid = if b.mid().is_empty() { 0 } else { b.mid()[i] };
        let mut r = SeriesRows {
            gid: if b.gid().is_empty() { 0 } else { b.gid()[i] },
            mid, cid: first(b.cid()), moid: first(b.moid()), from: i, to: i + 1,
        };
        let (runs, series) = (b.runs(), b.series());
        if b.gid().is_empty() && !series.is_empty() {
            r.to = b.rows();
        }
        if !runs.is_empty() {
            self.run += (runs[self.run].end as usize <= i) as usize;
            r.gid = runs[self.run].gid;
            r.to = r.to.min(runs[self.run].end as usize);
        }
        if !series.is_empty() {
            self.series += (series[self.series].end as usize <= i) as usize;
            let s = &series[self.series];
            (r.mid, r.cid, r.moid) = (s.mid, s.cid, s.moid);
            r.to = r.to.min(s.end as usize);
        }
        self.at = r.to;
        Some(r)
    }
}

/// The columns of one call. Those that were not asked for are empty.
#[repr(C)]
pub struct Batch {
    magic: u32,
    n: u32,
    flags: u32,
    present: u32,
    cid: *const i32,
    moid: *const i32,
    mid: *const i64,
    cap: *const i64,
    acq: *const i64,
    gid: *const u32,
    offsets: *const u32,
    data: *const u8,
    data_len: u32,
    stride: u32,
    n_groups: u32,
    n_runs: u32,
    runs: *const Run,
    seq: u32,
    n_series: u32,
    series: *const Series,
    zero: [u32; 12],
}

// An address is 0 where a column is absent; the host vouches for all others.
fn column<'a, T>(at: *const T, n: u32) -> &'a [T] {
    if at.is_null() {
        return &[];
    }
    unsafe { slice::from_raw_parts(at, n as usize) }
}

impl Batch {
    pub fn rows(&self) -> usize { self.n as usize }
    pub fn cid(&self) -> &[i32] { column(self.cid, self.n) }
    pub fn moid(&self) -> &[i32] { column(self.moid, self.n) }
    pub fn mid(&self) -> &[i64] { column(self.mid, self.n) }
    /// Capture times in nanoseconds since 1970.
    pub fn cap(&self) -> &[i64] { column(self.cap, self.n) }
    /// Acquisition times in nanoseconds since 1970.
    pub fn acq(&self) -> &[i64] { column(self.acq, self.n) }
    /// The group of each row; empty when there are runs.
    pub fn gid(&self) -> &[u32] { column(self.gid, self.n) }
    /// Empty unless RUNS was asked for, and GID was not or they are long.
    pub fn runs(&self) -> &[Run] { column(self.runs, self.n_runs) }
    /// Empty unless SERIES was asked for; if columns were as well, it or they are, see ABI.md.
    pub fn series(&self) -> &[Series] { column(self.series, self.n_series) }
    /// The rows of one group and one series after each other, or row by row where these are short.
    /// A module that uses this asks for SERIES and for what it reads of CID, MOID and MID, and if
    /// it has groups for GID and RUNS. What it did not ask for is 0, or what it is.
    pub fn series_rows(&self) -> SeriesIter<'_> {
        SeriesIter { batch: self, at: 0, run: 0, series: 0 }
    }
    pub fn groups(&self) -> usize { self.n_groups as usize }
    /// The number of this batch in the instance, from 0.
    pub fn seq(&self) -> u32 { self.seq }
    /// All payloads, one after another.
    pub fn data(&self) -> &[u8] { column(self.data, self.data_len) }
    /// The size of every payload, 0 if they differ or are empty.
    pub fn stride(&self) -> usize { self.stride as usize }
    /// Payload i.
    #[inline]
    pub fn payload(&self, i: usize) -> &[u8] {
        let stride = self.stride();
        if stride > 0 {
            return &self.data()[i * stride..][..stride];
        }
        let offsets = column(self.offsets, if self.offsets.is_null() { 0 } else { self.n + 1 });
        &self.data()[offsets[i] as usize..offsets[i + 1] as usize]
    }
}

/// One bit per row.
pub struct Bitmap<'a>(&'a mut [u64]);

impl Bitmap<'_> {
    /// Keeps row i.
    #[inline]
    pub fn set(&mut self, i: usize) { self.0[i >> 6] |= 1 << (i & 63); }
}

/// The parameters of a call: 8 bytes for each that the document declares, then texts; or none.
#[derive(Clone, Copy)]
pub struct Params<'a>(&'a [u8]);

impl Params<'_> {
    /// How many there are, where none is a text. Programs may send fewer than were declared.
    pub fn count(&self) -> usize { self.0.len() / 8 }
    /// Parameter i; an enum is the number of its value.
    pub fn u64(&self, i: usize) -> u64 { u64_at(self.0, 8 * i) }
    pub fn i64(&self, i: usize) -> i64 { self.u64(i) as i64 }
    pub fn f64(&self, i: usize) -> f64 { f64::from_bits(self.u64(i)) }
    /// Parameter i, which is a text. It is valid until `new` returns; [`keep`] copies it.
    pub fn text(&self, i: usize) -> &[u8] {
        let slot = self.u64(i);
        &self.0[slot as u32 as usize..][..(slot >> 32) as usize]
    }
}

fn bytes<const N: usize>(src: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&src[at..at + N]);
    out
}

/// The numbers at a place in a payload.
pub fn u64_at(src: &[u8], at: usize) -> u64 { u64::from_le_bytes(bytes(src, at)) }
pub fn i64_at(src: &[u8], at: usize) -> i64 { i64::from_le_bytes(bytes(src, at)) }
pub fn i32_at(src: &[u8], at: usize) -> i32 { i32::from_le_bytes(bytes(src, at)) }
pub fn f64_at(src: &[u8], at: usize) -> f64 { f64::from_le_bytes(bytes(src, at)) }
pub fn f32_at(src: &[u8], at: usize) -> f32 { f32::from_le_bytes(bytes(src, at)) }

/// Types of numbers in payloads, in the order of the enum f64, f32, i64, i32, u32.
#[derive(Clone, Copy, PartialEq)]
pub enum Number {
    F64,
    F32,
    I64,
    I32,
    U32,
}

impl Number {
    /// The type of a parameter, None for a number that is none.
    pub fn of(value: u64) -> Option<Number> {
        let types = [Number::F64, Number::F32, Number::I64, Number::I32, Number::U32];
        types.get(usize::try_from(value).ok()?).copied()
    }
    pub fn size(self) -> usize {
        if self == Number::F64 || self == Number::I64 { 8 } else { 4 }
    }
    #[inline]
    pub fn read(self, src: &[u8], at: usize) -> f64 {
        match self {
            Number::F64 => f64_at(src, at),
            Number::F32 => f32_at(src, at) as f64,
            Number::I64 => i64_at(src, at) as f64,
            Number::I32 => i32_at(src, at) as f64,
            Number::U32 => i32_at(src, at) as u32 as f64,
        }
    }
}

/// A failure, whose text is kept for the host.
pub struct Error(i32);

/// Fails with a status and a text: `error(EPARAM, format_args!("width must be below {}", n))`.
#[cold]
pub fn error(status: i32, text: fmt::Arguments) -> Error {
    say(text);
    Error(status)
}

/// The error for row i, whose payload of size bytes ends before byte want.
#[cold]
pub fn short_payload(i: usize, size: usize, want: usize) -> Error {
    error(EPAYLOAD, format_args!("record {} of the batch has a payload of {} bytes, the number \
        ends at byte {}", i, size, want))
}

/// Where results go. What does not fit is left out, and the host asks again with more room.
pub struct Out<'a> {
    to: &'a mut [u8],
    used: usize,
    full: bool,
}

impl Out<'_> {
    pub fn bytes(&mut self, src: &[u8]) {
        match self.to.get_mut(self.used..self.used + src.len()) {
            Some(dst) => {
                dst.copy_from_slice(src);
                self.used += src.len();
            }
            None => self.full = true,
        }
    }
    pub fn u64(&mut self, v: u64) { self.bytes(&v.to_le_bytes()); }
    pub fn i64(&mut self, v: i64) { self.u64(v as u64); }
    /// What is not a number is always written with the same bits: processors differ in them.
    pub fn f64(&mut self, v: f64) {
        self.u64(if v == v { v.to_bits() } else { 0x7ff8 << 48 });
    }
    /// A text as documents mean it: its size, its bytes and zeros up to a multiple of 8.
    pub fn text(&mut self, text: &[u8]) {
        self.u64(text.len() as u64);
        self.bytes(text);
        self.bytes(&[0; 7][..text.len().wrapping_neg() % 8]);
    }
}

// Notes, and the text behind the last error or panic. One thread and no call back make it safe.
struct Message {
    text: [u8; 1024],
    used: usize,
    noted: usize,
}

static mut MESSAGE: Message = Message { text: [0; 1024], used: 0, noted: 0 };

impl Write for Message {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = &mut self.text[self.used..];
        let n = s.len().min(room.len());
        room[..n].copy_from_slice(&s.as_bytes()[..n]);
        self.used += n;
        if n < s.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

fn say(text: fmt::Arguments) {
    let m = unsafe { &mut *addr_of_mut!(MESSAGE) };
    m.used = m.noted;
    let _ = m.write_fmt(text); // cut where it is too long
}

/// Keeps a line that is shown before the text of an error or a panic, if the query ends in one.
/// Lines beyond half of the room are left out.
#[cold]
pub fn note(line: fmt::Arguments) {
    let m = unsafe { &mut *addr_of_mut!(MESSAGE) };
    m.used = m.noted;
    if m.write_fmt(line).and(m.write_str("\n")).is_ok() && m.used <= m.text.len() / 2 {
        m.noted = m.used;
    }
    m.used = m.noted;
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    say(format_args!("{}", info));
    core::arch::wasm32::unreachable()
}

#[no_mangle]
extern "C" fn pentad_error() -> u64 {
    let m = unsafe { &*addr_of!(MESSAGE) };
    (m.text.as_ptr() as u64) << 32 | m.used as u64
}

#[no_mangle]
extern "C" fn pentad_abi_1() {}

extern "C" {
    static __heap_base: u8;
}

static mut TOP: u64 = 0;

/// Memory that lives until the instance ends, 0 when there is none.
#[no_mangle]
extern "C" fn pentad_alloc(size: u32) -> u32 {
    use core::arch::wasm32::{memory_grow, memory_size};
    let top = unsafe { &mut *addr_of_mut!(TOP) };
    if *top == 0 {
        *top = unsafe { addr_of!(__heap_base) } as u64;
    }
    let at = (*top + 63) & !63;
    let end = at + size as u64 + 64;
    let have = (memory_size(0) as u64) << 16;
    if end > u32::MAX as u64 {
        return 0;
    }
    if end > have && memory_grow(0, ((end - have + 65535) >> 16) as usize) == usize::MAX {
        return 0;
    }
    *top = at + size as u64;
    at as u32
}
