//! growing: states that own memory, what they own it in, and how they are saved. It belongs to
//! pentad.rs.

use super::*;
use core::ops::{Deref, DerefMut};
use core::{mem, ptr};

/// Folds records into states that own memory: a [`List`], bytes that [`keep`] copied. They live in
/// the instance and go to others as what save writes.
pub trait Growing: Sized {
    /// The host moves it by its bytes, so nothing may point at it.
    type State: 'static;
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
    /// Writes what load needs of a state, at most 1 MiB.
    fn save(&self, s: &Self::State, out: &mut Out);
    /// Folds what save wrote, maybe in another instance, into a state, fresh or not.
    fn load(&self, s: &mut Self::State, saved: In) -> Result<(), Error>;
    /// Writes the result of a state.
    fn finish(&self, s: &Self::State, out: &mut Out);
}

#[cold]
fn no_memory() -> Error { error(ENOMEM, format_args!("no memory is left for what states keep")) }

/// Memory for n values, which lives until the instance ends.
fn room_for<T>(n: usize) -> Result<*mut T, Error> {
    let size = n.checked_mul(mem::size_of::<T>()).and_then(|size| u32::try_from(size).ok());
    match size.map_or(0, |size| pentad_alloc(size)) {
        0 => Err(no_memory()),
        at => Ok(at as *mut T),
    }
}

/// A list of values that grows. What it grew out of is not freed, and values are not dropped.
pub struct List<T: 'static> {
    at: *mut T,
    used: usize,
    room: usize,
}

impl<T> List<T> {
    pub const fn new() -> Self {
        List { at: ptr::NonNull::dangling().as_ptr(), used: 0, room: 0 }
    }

    pub fn push(&mut self, value: T) -> Result<(), Error> { self.insert(self.used, value) }

    /// Puts a value before value i.
    pub fn insert(&mut self, i: usize, value: T) -> Result<(), Error> {
        assert!(i <= self.used, "an index beyond the list");
        if self.used == self.room {
            self.grow()?;
        }
        unsafe {
            ptr::copy(self.at.add(i), self.at.add(i + 1), self.used - i);
            self.at.add(i).write(value);
        }
        self.used += 1;
        Ok(())
    }

    /// Keeps the first n values.
    pub fn truncate(&mut self, n: usize) { self.used = self.used.min(n); }

    #[inline(never)]
    fn grow(&mut self) -> Result<(), Error> {
        let room = (2 * self.room).max(4);
        let at = room_for(room)?;
        unsafe { ptr::copy_nonoverlapping(self.at, at, self.used) };
        self.at = at;
        self.room = room;
        Ok(())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];
    fn deref(&self) -> &[T] { unsafe { slice::from_raw_parts(self.at, self.used) } }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        unsafe { slice::from_raw_parts_mut(self.at, self.used) }
    }
}

// Where the next bytes are kept.
static mut SLAB: (*mut u8, usize) = (ptr::null_mut(), 0);
const SLAB_SIZE: usize = 4096;

/// Copies bytes to where they live until the instance ends.
pub fn keep(src: &[u8]) -> Result<&'static [u8], Error> {
    let (at, left) = unsafe { &mut *addr_of_mut!(SLAB) };
    if at.is_null() || src.len() > *left {
        let size = src.len().max(SLAB_SIZE);
        *at = room_for(size)?;
        *left = size;
    }
    let kept = unsafe { slice::from_raw_parts_mut(*at, src.len()) };
    kept.copy_from_slice(src);
    *at = unsafe { at.add(src.len()) };
    *left -= src.len();
    Ok(kept)
}

/// What save wrote, from the front on. It may come from anywhere: each end is checked.
pub struct In<'a>(&'a [u8]);

#[cold]
#[inline(never)]
fn no_end() -> Error { error(EPAYLOAD, format_args!("a saved number does not end")) }

impl<'a> In<'a> {
    pub(super) fn new(saved: &'a [u8]) -> Self { In(saved) }
    pub fn is_empty(&self) -> bool { self.0.is_empty() }
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Error> {
        if n > self.0.len() {
            return Err(error(EPAYLOAD, format_args!("a saved state ends too early")));
        }
        let (first, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(first)
    }
    /// A number of 7 bits a byte, the lowest first; all bytes but the last have the highest bit.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u64, Error> {
        match self.0.first() {
            Some(&b) if b < 128 => {
                self.0 = &self.0[1..];
                Ok(b as u64)
            }
            _ => self.long_uvarint(),
        }
    }
    #[inline(never)]
    fn long_uvarint(&mut self) -> Result<u64, Error> {
        let (mut v, mut shift) = (0, 0);
        for (i, &b) in self.0.iter().enumerate() {
            v |= ((b & 127) as u64) << shift;
            shift += 7;
            if b < 128 {
                self.0 = &self.0[i + 1..];
                return Ok(v);
            }
            if shift > 63 {
                break;
            }
        }
        Err(no_end())
    }
    pub fn u64(&mut self) -> Result<u64, Error> { Ok(u64_at(self.bytes(8)?, 0)) }
    pub fn i64(&mut self) -> Result<i64, Error> { Ok(self.u64()? as i64) }
    pub fn f64(&mut self) -> Result<f64, Error> { Ok(f64::from_bits(self.u64()?)) }
    /// A text as [`Out::text`] writes it.
    pub fn text(&mut self) -> Result<&'a [u8], Error> {
        let size = usize::try_from(self.u64()?).unwrap_or(usize::MAX);
        let text = self.bytes(size)?;
        self.bytes(size.wrapping_neg() % 8)?;
        Ok(text)
    }
}
