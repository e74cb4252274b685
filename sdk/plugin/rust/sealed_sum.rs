//! sealed_sum: adds up payloads of sdk/seal, without a key. A sum keeps the lanes, still encrypted,
//! and which records it is of: the runs of sequence numbers of each chain, in the order in which
//! they came. A saved sum is a partial of sdk/seal, the same bytes as those of sealed_sum.h for C.
//! It lies beside sealed.rs, for a module that says `mod sealed; mod sealed_sum;`.
#![allow(dead_code)] // no module uses all of it

use crate::pentad::{error, i32_at, i64_at, u64_at, Batch, Error, In, List, Out, EPARAM};
use core::cell::{Cell, UnsafeCell};
use crate::sealed::{Schema, Text, DELTA, EPARTIAL, HEADER, TAG, WITH_MAC};

const MAX_LANES: usize = 2048;
const MAC_SIZE: usize = 16;
// There is no fuel to place more than some thousand chains again, so lists grow from then on.
const MAX_SLOTS: usize = 4096;
// How many runs are sorted at most when a sum is saved: there is fuel for no more.
const MAX_SORTED: usize = 8192;

/// One number of payloads.
#[derive(Clone, Copy)]
struct Lane {
    width: usize,
    trend: Option<(i64, i64)>, // origin and unit of its times
}

/// Where payloads of a schema have what is added up.
pub struct Layout {
    pub schema: Schema,
    lanes: List<Lane>,
    trends: usize,
    end: usize, // of the lanes
}

impl Layout {
    /// Reads SCHEMA:CHECK PREFIX FLAGS WIDTHS, as `pentad seal schema` prints it.
    pub fn of(text: &[u8]) -> Result<Layout, Error> {
        let mut text = Text(text);
        let bad = || error(EPARAM, format_args!("layout must be SCHEMA:CHECK PREFIX FLAGS \
            WIDTHS, as pentad seal schema prints it"));
        let schema = text.schema().ok_or_else(bad)?;
        let mut l = Layout { schema, lanes: List::new(), trends: 0, end: HEADER };
        loop {
            let lane = Layout::lane(&mut text).ok_or_else(bad)?;
            l.end += lane.width;
            l.trends += lane.trend.is_some() as usize;
            l.lanes.push(lane)?;
            if !text.next(b',') || l.lanes.len() == MAX_LANES {
                break;
            }
        }
        if text.0.is_empty() && l.end + l.mac_size() <= schema.prefix { Ok(l) } else { Err(bad()) }
    }

    fn lane(text: &mut Text) -> Option<Lane> {
        let width = text.number().filter(|w| matches!(w, 4 | 8 | 16))? as usize;
        let mut trend = None;
        if text.next(b'@') {
            let origin = text.number()?;
            text.want(b'/')?;
            trend = Some((origin, text.number().filter(|&unit| unit > 0)?));
        }
        Some(Lane { width, trend })
    }

    fn has_mac(&self) -> bool { self.schema.flags & WITH_MAC != 0 }

    fn mac_size(&self) -> usize { if self.has_mac() { MAC_SIZE } else { 0 } }

    /// What `front` of a plugin returns that reads nothing behind it.
    pub fn front(&self) -> usize { self.schema.prefix }

    /// Whether an equality tag can lie at a place in payloads.
    pub fn tag(&self, at: u64) -> bool {
        let end = self.schema.prefix - self.mac_size();
        at % 8 == 0 && at >= self.end as u64 && end >= TAG && at <= (end - TAG) as u64
    }

    fn put_front(&self, out: &mut Out, extra: u8) {
        let [a, b, c] = self.schema.check;
        let [low, high] = self.schema.id.to_le_bytes();
        out.bytes(&[1, self.has_mac() as u8 | extra, low, high, a, b, c]);
    }
}

#[derive(Clone, Copy)]
struct Run {
    from: u32,
    to: u32,
}

#[derive(Clone, Copy, PartialEq)]
struct Series {
    mid: i64,
    cid: i32,
    moid: i32,
}

/// Which records of a chain are in a sum: runs in the order in which they came.
struct Chain {
    series: Series,
    id: u64,
    key: u32,
    next: u32, // in the list of its slot, from 1
    // Sorted when a sum is saved, which others hold no reference into: there is one thread.
    unsorted: Cell<bool>,
    runs: UnsafeCell<List<Run>>,
}

impl Chain {
    fn is(&self, series: &Series, id: u64, key: u32) -> bool {
        self.id == id && self.series == *series && self.key == key
    }

    #[inline(never)]
    fn add(&mut self, from: u32, to: u32) -> Result<(), Error> {
        let runs = self.runs.get_mut();
        if let Some(last) = runs.last_mut() {
            if last.to.wrapping_add(1) == from {
                last.to = to;
                return Ok(());
            }
            if last.from == to.wrapping_add(1) { // sealed newest first
                last.from = from;
                self.unsorted.set(self.unsorted.get() || runs.len() > 1);
                return Ok(());
            }
            if last.to >= from {
                self.unsorted.set(true);
            }
        }
        runs.push(Run { from, to })
    }

    fn runs(&self) -> &[Run] { unsafe { &*self.runs.get() } }

    /// Sorts runs and joins those that touch; runs that overlap are kept, so that who reads them
    /// sees it. Shell's sort, by Ciura's steps.
    #[inline(never)]
    fn sort(&self) {
        let runs = unsafe { &mut *self.runs.get() };
        for step in [1750, 701, 301, 132, 57, 23, 10, 4, 1] {
            for i in step..runs.len() {
                let (x, mut at) = (runs[i], i);
                while at >= step && runs[at - step].from > x.from {
                    runs[at] = runs[at - step];
                    at -= step;
                }
                runs[at] = x;
            }
        }
        let mut last = 0;
        self.unsorted.set(false);
        for i in 1..runs.len() {
            if runs[i].from <= runs[last].to {
                self.unsorted.set(true);
            }
            if runs[last].to.wrapping_add(1) == runs[i].from {
                runs[last].to = runs[i].to;
            } else {
                last += 1;
                runs[last] = runs[i];
            }
        }
        runs.truncate(last + 1);
    }

    /// Writes the runs: as a bitmap where they are many and near to each other.
    fn put(&self, out: &mut Out) {
        let (runs, unsorted) = (self.runs(), self.unsorted.get());
        let (first, last) = (runs[0].from as u64, runs[runs.len() - 1].to as u64);
        let (n, span) = (runs.len() as u64, last + 1 - first);
        if !unsorted && n > 16 && span / 8 < n {
            return self.put_bitmap(out, first, span);
        }
        out.bytes(&[if unsorted { UNSORTED } else { SORTED }]);
        put_uvarint(out, n);
        let mut next = 0;
        for r in runs {
            let step = r.from as i64 - next;
            put_uvarint(out, (if unsorted { step << 1 ^ step >> 63 } else { step }) as u64);
            put_uvarint(out, (r.to - r.from) as u64);
            next = r.to as i64 + 1;
        }
    }

    fn put_bitmap(&self, out: &mut Out, first: u64, span: u64) {
        out.bytes(&[BITMAP]);
        put_uvarint(out, first);
        put_uvarint(out, span);
        let (mut bits, mut at) = (0u8, 0);
        for r in self.runs() {
            for seq in r.from as u64..=r.to as u64 {
                while seq - first >= at + 8 {
                    out.bytes(&[bits]);
                    bits = 0;
                    at += 8;
                }
                bits |= 1 << (seq - first - at);
            }
        }
        out.bytes(&[bits]);
    }
}

// How runs are written: by the gaps between them, as a bitmap, by signed steps. Who reads them
// sorts them, as not all are sorted here.
const SORTED: u8 = 0;
const BITMAP: u8 = 1;
const UNSORTED: u8 = 2;

fn put_uvarint(out: &mut Out, mut v: u64) {
    let (mut bytes, mut n) = ([0; 10], 0);
    while v >= 128 {
        bytes[n] = v as u8 | 128;
        v >>= 7;
        n += 1;
    }
    bytes[n] = v as u8;
    out.bytes(&bytes[..n + 1]);
}

#[cold]
#[inline(never)]
fn damaged() -> Error { error(EPARTIAL, format_args!("a saved sum is damaged")) }

fn take<'a>(saved: &mut In<'a>, n: usize) -> Result<&'a [u8], Error> {
    saved.bytes(n).map_err(|_| damaged())
}


fn take_uvarint(saved: &mut In) -> Result<u64, Error> { saved.uvarint().map_err(|_| damaged()) }

#[inline]
fn lane_at(p: &[u8], at: usize, width: usize) -> u128 {
    match width {
        4 => i32_at(p, at) as u32 as u128,
        8 => u64_at(p, at) as u128,
        _ => (u64_at(p, at + 8) as u128) << 64 | u64_at(p, at) as u128,
    }
}

fn hash(series: &Series, id: u64) -> usize {
    let mut h = id ^ (series.mid as u64).wrapping_mul(0x9e3779b97f4a7c15)
        ^ (series.cid as u32 as u64) << 32 ^ series.moid as u32 as u64;
    h = (h ^ h >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
    (h ^ h >> 31) as u32 as usize
}

/// The sum of payloads of a layout that are still sealed, and which records it is of: the state of
/// a module that says `growing!`, whose batches have cid, mid, moid and cap.
pub struct Sum {
    count: u64,
    deltas: u64,
    sums: List<u128>, // of lanes, then time and its square of each trend
    mac: (u128, u64), // of 192 bits, so that nothing is lost
    chains: List<Chain>,
    slots: List<u32>, // lists of chains by hash: the number of the first, from 1
    last: usize,
}

impl Sum {
    pub const fn new() -> Sum {
        Sum {
            count: 0,
            deltas: 0,
            sums: List::new(),
            mac: (0, 0),
            chains: List::new(),
            slots: List::new(),
            last: 0,
        }
    }

    /// How many records the sum is of.
    pub fn count(&self) -> u64 { self.count + self.deltas }

    fn prepare(&mut self, l: &Layout) -> Result<(), Error> {
        while self.sums.len() < l.lanes.len() + 2 * l.trends {
            self.sums.push(0)?;
        }
        Ok(())
    }

    fn place(&mut self, number: usize) {
        let c = &mut self.chains[number];
        let slot = hash(&c.series, c.id) & (self.slots.len() - 1);
        c.next = self.slots[slot];
        self.slots[slot] = number as u32 + 1;
    }

    #[inline(never)]
    fn grow(&mut self) -> Result<(), Error> {
        let room = (2 * self.slots.len()).max(4);
        self.slots.fill(0);
        while self.slots.len() < room {
            self.slots.push(0)?;
        }
        for i in 0..self.chains.len() {
            self.place(i);
        }
        Ok(())
    }

    #[inline]
    fn chain(&mut self, series: &Series, id: u64, key: u32) -> Result<&mut Chain, Error> {
        if !self.chains.get(self.last).map_or(false, |c| c.is(series, id, key)) {
            self.last = self.find(series, id, key)?;
        }
        Ok(&mut self.chains[self.last])
    }

    #[inline(never)]
    fn find(&mut self, series: &Series, id: u64, key: u32) -> Result<usize, Error> {
        if !self.slots.is_empty() {
            let mut at = self.slots[hash(series, id) & (self.slots.len() - 1)] as usize;
            while at > 0 {
                if self.chains[at - 1].is(series, id, key) {
                    return Ok(at - 1);
                }
                at = self.chains[at - 1].next as usize;
            }
        }
        if self.chains.len() == self.slots.len() && self.slots.len() < MAX_SLOTS {
            self.grow()?;
        }
        let (unsorted, runs) = (Cell::new(false), UnsafeCell::new(List::new()));
        self.chains.push(Chain { series: *series, id, key, next: 0, unsorted, runs })?;
        self.place(self.chains.len() - 1);
        Ok(self.chains.len() - 1)
    }

    /// Adds row i of a batch, whose payload is p.
    pub fn add(&mut self, l: &Layout, b: &Batch, i: usize, p: &[u8]) -> Result<(), Error> {
        let h = l.schema.header(p).ok_or_else(|| l.schema.other(p, i))?;
        let series = Series { mid: b.mid()[i], cid: b.cid()[i], moid: b.moid()[i] };
        self.chain(&series, h.chain, h.key)?.add(h.seq, h.seq)?;
        self.prepare(l)?;
        let delta = h.flags & DELTA != 0;
        if delta {
            self.deltas += 1;
        } else {
            self.count += 1;
        }
        let (mut at, mut time) = (HEADER, l.lanes.len());
        for (k, lane) in l.lanes.iter().enumerate() {
            self.sums[k] = self.sums[k].wrapping_add(lane_at(p, at, lane.width));
            at += lane.width;
            if let Some((origin, unit)) = lane.trend {
                if !delta { // its time was added with the version before
                    self.add_time(time, b.cap()[i].wrapping_sub(origin).div_euclid(unit));
                }
                time += 2;
            }
        }
        if l.has_mac() {
            self.add_mac(lane_at(p, l.schema.prefix - MAC_SIZE, MAC_SIZE), 0);
        }
        Ok(())
    }

    fn add_time(&mut self, at: usize, t: i64) {
        let n = t.unsigned_abs() as u128;
        self.sums[at] = self.sums[at].wrapping_add(t as i128 as u128);
        self.sums[at + 1] = self.sums[at + 1].wrapping_add(n * n);
    }

    /// Adds as integers: there is no modular arithmetic on a node.
    fn add_mac(&mut self, low: u128, high: u64) {
        let (sum, carry) = self.mac.0.overflowing_add(low);
        self.mac = (sum, self.mac.1.wrapping_add(high).wrapping_add(carry as u64));
    }

    /// Writes the sum as a partial, which `load` takes and who has the keys decrypts.
    pub fn save(&self, l: &Layout, out: &mut Out) {
        let mut left = MAX_SORTED;
        for c in self.chains.iter() {
            if c.unsorted.get() && c.runs().len() <= left {
                left -= c.runs().len();
                c.sort();
            }
        }
        l.put_front(out, 0);
        put_uvarint(out, self.count);
        put_uvarint(out, self.deltas);
        for i in 0..l.lanes.len() + 2 * l.trends {
            let width = l.lanes.get(i).map_or(16, |lane| lane.width);
            let sum = self.sums.get(i).copied().unwrap_or(0);
            out.bytes(&sum.to_le_bytes()[..width]);
        }
        if l.has_mac() {
            out.bytes(&self.mac.0.to_le_bytes());
            out.u64(self.mac.1);
        }
        let mut series = 0;
        for (i, c) in self.chains.iter().enumerate() {
            series += (i == 0 || self.chains[i - 1].series != c.series) as u64;
        }
        put_uvarint(out, series);
        let mut at = 0;
        while at < self.chains.len() {
            at += self.put_series(out, at);
        }
    }

    /// Writes the chains of a series from one on, which share its name: how many they are.
    fn put_series(&self, out: &mut Out, at: usize) -> usize {
        let s = self.chains[at].series;
        let n = self.chains[at..].iter().take_while(|c| c.series == s).count();
        out.bytes(&s.cid.to_le_bytes());
        out.i64(s.mid);
        out.bytes(&s.moid.to_le_bytes());
        put_uvarint(out, n as u64);
        for c in &self.chains[at..at + n] {
            out.u64(c.id);
            out.bytes(&c.key.to_le_bytes());
            c.put(out);
        }
        n
    }

    /// Adds a partial that `save` wrote, maybe in another instance.
    pub fn load(&mut self, l: &Layout, mut saved: In) -> Result<(), Error> {
        self.take(l, &mut saved)?;
        if saved.is_empty() { Ok(()) } else { Err(damaged()) }
    }

    /// Adds the partial that comes next, as `load` does. Others may follow.
    pub fn take(&mut self, l: &Layout, saved: &mut In) -> Result<(), Error> {
        let ([a, b, c], [low, high]) = (l.schema.check, l.schema.id.to_le_bytes());
        if take(saved, 7)? != [1, l.has_mac() as u8, low, high, a, b, c] {
            return Err(damaged());
        }
        self.prepare(l)?;
        self.count = self.count.wrapping_add(take_uvarint(saved)?);
        self.deltas = self.deltas.wrapping_add(take_uvarint(saved)?);
        for i in 0..self.sums.len() {
            let width = l.lanes.get(i).map_or(16, |lane| lane.width);
            self.sums[i] = self.sums[i].wrapping_add(lane_at(take(saved, width)?, 0, width));
        }
        if l.has_mac() {
            let low = lane_at(take(saved, 16)?, 0, 16);
            self.add_mac(low, u64_at(take(saved, 8)?, 0));
        }
        for _ in 0..take_uvarint(saved)? {
            let p = take(saved, 16)?;
            let series = Series { cid: i32_at(p, 0), mid: i64_at(p, 4), moid: i32_at(p, 12) };
            for _ in 0..take_uvarint(saved)? {
                let p = take(saved, 12)?;
                let c = self.chain(&series, u64_at(p, 0), i32_at(p, 8) as u32)?;
                take_runs(saved, c)?;
            }
        }
        Ok(())
    }
}

// These are functions of their own: each turn of a loop pays for all that is in it.

#[inline(never)]
fn take_runs(saved: &mut In, c: &mut Chain) -> Result<(), Error> {
    let form = take(saved, 1)?[0];
    if form == BITMAP {
        return take_bitmap(saved, c);
    }
    let n = take_uvarint(saved)?;
    if n == 0 || form != SORTED && form != UNSORTED {
        return Err(damaged());
    }
    let mut next = 0u64;
    for _ in 0..n {
        let mut step = take_uvarint(saved)?;
        if form == UNSORTED {
            step = step >> 1 ^ (step & 1).wrapping_neg();
        }
        let from = next.wrapping_add(step);
        let to = from.wrapping_add(take_uvarint(saved)?);
        if from == 0 || from > to || to > u32::MAX as u64 {
            return Err(damaged());
        }
        c.add(from as u32, to as u32)?;
        next = to + 1;
    }
    Ok(())
}

#[inline(never)]
fn take_bitmap(saved: &mut In, c: &mut Chain) -> Result<(), Error> {
    let (first, n) = (take_uvarint(saved)?, take_uvarint(saved)?);
    if first == 0 || first > u32::MAX as u64 || n == 0 || n > (1 << 32) - first {
        return Err(damaged());
    }
    let bits = take(saved, ((n + 7) / 8) as usize)?;
    for at in 0..n {
        if bits[(at / 8) as usize] >> (at % 8) & 1 != 0 {
            c.add((first + at) as u32, (first + at) as u32)?;
        }
    }
    if c.runs().is_empty() { Err(damaged()) } else { Ok(()) }
}
