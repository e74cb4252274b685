//! columns: the numbers of a batch, of any type that the standard plugins read, as a slice of f64.
//! It lies beside pentad.rs, for a module that says `mod columns;`.
#![allow(dead_code)] // no module uses all of it

use crate::pentad::{error, f32_at, f64_at, i32_at, i64_at, short_payload};
use crate::pentad::{Batch, Error, Number, Params, EPARAM, EPAYLOAD};

pub const MAX_ROWS: usize = 4096;
const MAX_OFFSET: u64 = 32 << 20;

/// The types of numbers, as documents say them.
macro_rules! number_types {
    () => {
        r#"["f64","f32","i64","i32","u32","text"]"#
    };
}

/// The part of a document that says what is read.
macro_rules! number_payload {
    () => {
        concat!(r#""payload":"#, columns::number_types!(), ",")
    };
}

/// The parameters type and offset in a document.
macro_rules! number_params {
    () => {
        concat!(
            r#"{"name":"type","type":"enum","enum":"#, columns::number_types!(),
            r#","default":"f64","help":"type of the number"},"#,
            r#"{"name":"offset","type":"u64","default":"0","#,
            r#""help":"where the number starts in the payload"}"#
        )
    };
}

pub(crate) use {number_params, number_payload, number_types};

/// Where and how a payload has its number.
pub struct Field {
    number: Option<Number>, // None for decimal text
    offset: usize,
}

impl Field {
    /// An f64 at the start.
    pub const DEFAULT: Field = Field { number: Some(Number::F64), offset: 0 };

    /// Takes type and offset, the first two parameters.
    pub fn of(params: Params) -> Result<Field, Error> {
        const TEXT: u64 = 5;
        let number = Number::of(params.u64(0));
        if number.is_none() && params.u64(0) != TEXT {
            return Err(error(EPARAM,
                format_args!("type must be f64, f32, i64, i32, u32 or text, as 0 to 5")));
        }
        if params.u64(1) > MAX_OFFSET {
            return Err(error(EPARAM, format_args!("offset must be at most {}", MAX_OFFSET)));
        }
        Ok(Field { number, offset: params.u64(1) as usize })
    }

    /// What `front` returns where nothing else of payloads is read: 0 for a text, which ends where
    /// the payload does.
    pub fn front(&self) -> usize {
        self.number.map_or(0, |number| self.offset + number.size())
    }

    /// The numbers of a batch, one per row. Payloads that are one f64 each are not copied to the
    /// column.
    pub fn numbers<'a>(&self, b: &'a Batch, column: &'a mut [f64; MAX_ROWS])
                       -> Result<&'a [f64], Error> {
        let (rows, stride) = (b.rows(), b.stride());
        let number = match self.number {
            Some(number) => number,
            None => return self.texts(b, &mut column[..rows]),
        };
        let want = self.offset + number.size();
        if stride < want {
            return self.ragged(b, number, &mut column[..rows]);
        }
        if number == Number::F64 && stride == 8 {
            // Columns lie at multiples of 64, and there are rows payloads of 8 bytes.
            let at = b.data().as_ptr() as *const f64;
            return Ok(unsafe { core::slice::from_raw_parts(at, rows) });
        }
        let column = &mut column[..rows];
        match number { // a loop for each, as it pays for all types that stand in it
            Number::F64 => self.dense(b, column, f64_at),
            Number::F32 => self.dense(b, column, |src, at| f32_at(src, at) as f64),
            Number::I64 => self.dense(b, column, |src, at| i64_at(src, at) as f64),
            Number::I32 => self.dense(b, column, |src, at| i32_at(src, at) as f64),
            Number::U32 => self.dense(b, column, |src, at| i32_at(src, at) as u32 as f64),
        }
        Ok(column)
    }

    #[inline(always)]
    fn dense(&self, b: &Batch, column: &mut [f64], read: impl Fn(&[u8], usize) -> f64) {
        for (x, payload) in column.iter_mut().zip(b.data().chunks_exact(b.stride())) {
            *x = read(payload, self.offset);
        }
    }

    // What is rare has functions of its own, and so have the loops in them: each turn pays for all
    // that stands in it.

    #[inline(never)]
    fn ragged<'a>(&self, b: &Batch, number: Number, column: &'a mut [f64])
                  -> Result<&'a [f64], Error> {
        let want = self.offset + number.size();
        for (i, x) in column.iter_mut().enumerate() {
            let payload = b.payload(i);
            if payload.len() < want {
                return Err(short_payload(i, payload.len(), want));
            }
            *x = number.read(payload, self.offset);
        }
        Ok(column)
    }

    #[inline(never)]
    fn texts<'a>(&self, b: &Batch, column: &'a mut [f64]) -> Result<&'a [f64], Error> {
        for (i, x) in column.iter_mut().enumerate() {
            match b.payload(i).get(self.offset..).and_then(decimal) {
                Some(v) => *x = v,
                None => return Err(self.no_decimal(i, b.payload(i).len())),
            }
        }
        Ok(column)
    }

    #[cold]
    fn no_decimal(&self, i: usize, size: usize) -> Error {
        if size <= self.offset {
            return short_payload(i, size, self.offset + 1);
        }
        error(EPAYLOAD, format_args!("record {} of the batch has no decimal number of up to 19 \
            digits at byte {}", i, self.offset))
    }
}

// Bounds of decimal text: what can be read without a library, exact to the last bit.
const MAX_CHARACTERS: usize = 31; // of digits and the point
const MAX_DIGITS: usize = 19;
const MAX_PLACES: usize = 27;
const MAX_EXACT: usize = 22; // powers of ten that f64 holds exactly

/// Digits that were read: their value modulo 2^64, and how many there are but for zeros at the
/// start.
#[derive(Clone, Copy)]
struct Digits {
    value: u64,
    kept: usize,
}

#[inline(never)]
fn digits(src: &[u8], seen: Digits) -> (usize, Digits) {
    let (mut value, mut kept, mut n) = (seen.value, seen.kept, 0);
    for c in src {
        let digit = c.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(digit as u64);
        kept += (digit as usize | kept != 0) as usize;
        n += 1;
    }
    (n, Digits { value, kept })
}

/// The decimal number at the start of a text: a sign, digits with or without a point, an exponent.
/// It ends where the text does, or before what cannot be meant as a part of it.
#[inline(never)]
fn decimal(src: &[u8]) -> Option<f64> {
    let negative = src.first() == Some(&b'-');
    let src = &src[(negative || src.first() == Some(&b'+')) as usize..];
    let (before, mut read) = digits(src, Digits { value: 0, kept: 0 });
    let (mut end, mut after) = (before, 0);
    if src.get(end) == Some(&b'.') {
        let (n, more) = digits(&src[end + 1..], read);
        (after, read) = (n, more);
        end += 1 + n;
    }
    let last = if after > 0 { end } else { before }; // the point itself may lie beyond
    if before + after == 0 || last > MAX_CHARACTERS || read.kept > MAX_DIGITS || after > MAX_PLACES {
        return None;
    }
    let mut power = -(after as i32);
    if let Some(&c) = src.get(end) {
        if part_of_number(c) || c.is_ascii_digit() {
            power += exponent(&src[end..])?;
        }
    }
    if read.value == 0 {
        power = 0;
    }
    let places = power.unsigned_abs() as usize;
    if places > MAX_PLACES {
        return None;
    }
    let x = if read.value >> 53 != 0 || places > MAX_EXACT {
        inexact(read.value, power)
    } else {
        // Both are exact, and so this is rounded once.
        let scale = scaled(FIVES[places], places as i32);
        if power < 0 { read.value as f64 / scale } else { read.value as f64 * scale }
    };
    Some(if negative { -x } else { x })
}

fn part_of_number(c: u8) -> bool { c.is_ascii_alphabetic() || c == b'.' || c == b'_' }

/// What follows the digits of a text: an exponent, or what makes it no number.
#[cold]
#[inline(never)]
fn exponent(src: &[u8]) -> Option<i32> {
    if src[0] | 32 != b'e' {
        return None;
    }
    let minus = src.get(1) == Some(&b'-');
    let from = 1 + (minus || src.get(1) == Some(&b'+')) as usize;
    let (n, read) = digits(&src[from..], Digits { value: 0, kept: 0 });
    if n == 0 || src.get(from + n).map_or(false, |&c| part_of_number(c)) {
        return None;
    }
    let e = if read.kept > 4 { 10_000 } else { read.value as i32 };
    Some(if minus { -e } else { e })
}

const FIVES: [u64; MAX_PLACES + 1] = {
    let mut fives = [1; MAX_PLACES + 1];
    let mut i = 1;
    while i <= MAX_PLACES {
        fives[i] = 5 * fives[i - 1];
        i += 1;
    }
    fives
};

/// 64 bits times a power of two, which is far from the ends of what f64 can hold.
fn scaled(digits: u64, power: i32) -> f64 {
    digits as f64 * f64::from_bits(((1023 + power) as u64) << 52)
}

/// Digits times 10^power, rounded once: what is cut off is kept as one bit, far below the last of
/// f64.
#[cold]
#[inline(never)]
fn inexact(digits: u64, power: i32) -> f64 {
    let five = FIVES[power.unsigned_abs() as usize];
    let (z, y) = (digits.leading_zeros() as i32, five.leading_zeros() as i32);
    let (digits, five) = (digits << z, five << y);
    if power < 0 {
        let (q, rest) = divide(digits >> 1, digits << 63, five);
        return scaled(q | (rest != 0) as u64, y - z - 63 + power);
    }
    let product = digits as u128 * five as u128;
    scaled((product >> 64) as u64 | (product as u64 != 0) as u64, 64 - z - y + power)
}

/// Divides 128 by 64 bits, after Knuth's algorithm D; high is below v, whose top bit is set.
fn divide(high: u64, low: u64, v: u64) -> (u64, u64) {
    let (v1, v0, mut rest, mut q) = (v >> 32, v as u32 as u64, high, 0);
    for next in [low >> 32, low as u32 as u64] {
        let mut guess = rest / v1;
        let mut r = rest - guess * v1;
        while guess >> 32 != 0 || guess * v0 > (r << 32 | next) {
            guess -= 1;
            r += v1;
            if r >> 32 != 0 {
                break;
            }
        }
        rest = (rest << 32 | next).wrapping_sub(guess.wrapping_mul(v));
        q = q << 32 | guess;
    }
    (q, rest)
}
