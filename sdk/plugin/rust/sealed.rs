//! sealed: what a plugin needs to tell payloads of sdk/seal, to compare their tags and to read the
//! tokens of a client. It has no key. sdk/seal/SEALING.md has the layouts; sealed_sum.rs adds up.
//! It lies beside pentad.rs, for a module that says `mod sealed;`.
#![allow(dead_code)] // no module uses all of it

use crate::pentad::{error, i32_at, u64_at, Batch, Error, List, EPARAM};
use core::cell::Cell;
use core::cmp::Ordering;

/// The first bytes of each payload; lanes follow.
pub const HEADER: usize = 24;
/// The size of an equality tag.
pub const TAG: usize = 8;

/// Flags of a payload.
pub const CORRECTION: u8 = 1;
pub const DELTA: u8 = 2; // lanes are what changed since the version before
pub const WITH_MAC: u8 = 16;
pub const WITH_ENVELOPE: u8 = 32;

/// Statuses of errors.
pub const ESEALED: i32 = -100; // a payload is not of the schema
pub const EPARTIAL: i32 = -101; // a saved sum is damaged
pub const ETOKEN: i32 = -102; // a token has no tags for a record

/// What payloads of a schema have in common. The check is the start of its fingerprint.
#[derive(Clone, Copy)]
pub struct Schema {
    pub id: u16,
    pub check: [u8; 3],
    pub prefix: usize, // bytes before the envelope
    pub flags: u8,
}

/// What a payload says in the clear about how it is sealed.
#[derive(Clone, Copy)]
pub struct Header {
    pub key: u32,
    pub chain: u64,
    pub seq: u32,
    pub flags: u8,
}

fn check_of(p: &[u8]) -> [u8; 3] { [p[21], p[22], p[23]] }

fn id_of(p: &[u8]) -> u16 { u16::from_le_bytes([p[2], p[3]]) }

impl Schema {
    /// Reads what layouts and tokens begin with: SCHEMA:CHECK PREFIX FLAGS and a space. What
    /// follows is left to others.
    pub fn of(text: &[u8]) -> Result<Schema, Error> {
        Text(text).schema().ok_or_else(|| error(EPARAM, format_args!("schema must be SCHEMA:CHECK \
            PREFIX FLAGS and a space, as layouts and tokens begin")))
    }

    /// The header of a payload, None for one that is not of the schema.
    #[inline]
    pub fn header(&self, p: &[u8]) -> Option<Header> {
        if p.len() < self.prefix || p.len() < HEADER {
            return None;
        }
        let h = Header {
            key: i32_at(p, 4) as u32,
            chain: u64_at(p, 8),
            seq: i32_at(p, 16) as u32,
            flags: p[20],
        };
        let known = p[0] == 1 && p[1] == 1 && id_of(p) == self.id && check_of(p) == self.check;
        if known && h.seq != 0 && h.flags & !(CORRECTION | DELTA) == self.flags {
            Some(h)
        } else {
            None
        }
    }

    /// The error for row i, whose payload is not of the schema: it says of which it is.
    #[cold]
    pub fn other(&self, p: &[u8], i: usize) -> Error {
        let (id, [a, b, c]) = (self.id, self.check);
        let choose = "; choose the quantity that is, or the layout of its schema";
        let sealed = p.len() >= HEADER && p[0] == 1 && p[1] == 1;
        if !sealed || id_of(p) == id && check_of(p) == self.check {
            return error(ESEALED, format_args!("record {} of the batch is not sealed by schema \
                {}:{:02x}{:02x}{:02x}{}", i, id, a, b, c, choose));
        }
        let ([x, y, z], changed) = (check_of(p), ": its definition was changed");
        error(ESEALED, format_args!("record {} of the batch is sealed by schema \
            {}:{:02x}{:02x}{:02x}, not sealed by schema {}:{:02x}{:02x}{:02x}{}", i, id_of(p),
            x, y, z, id, a, b, c, if id_of(p) == id { changed } else { choose }))
    }
}

/// Compares two order tags of one field and scope, of 8 or 16 bytes. The order of their bytes says
/// nothing: digits have two bits, and where two tags differ first, that of the greater value is one
/// more, modulo 4.
#[inline]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let (x, y) = (u64_at(x, 0).swap_bytes(), u64_at(y, 0).swap_bytes());
        if x != y {
            let shift = 62 - ((x ^ y).leading_zeros() & !1);
            let more = (x >> shift).wrapping_sub(y >> shift) & 3 == 1;
            return if more { Ordering::Greater } else { Ordering::Less };
        }
    }
    Ordering::Equal
}

/// Reads the texts of layouts and tokens: None for what is not there.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl Text<'_> {
    pub(crate) fn next(&mut self, c: u8) -> bool {
        let there = self.0.first() == Some(&c);
        self.0 = &self.0[there as usize..];
        there
    }
    pub(crate) fn want(&mut self, c: u8) -> Option<()> { self.next(c).then(|| ()) }
    /// A decimal number of at most 19 digits.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let minus = self.next(b'-');
        let (mut n, mut digits) = (0u64, 0);
        while let Some(c) = self.0.first().filter(|c| c.is_ascii_digit()) {
            n = n.wrapping_mul(10).wrapping_add((c - b'0') as u64);
            self.0 = &self.0[1..];
            digits += 1;
        }
        let n = if minus { n.wrapping_neg() } else { n };
        if digits == 0 || digits > 19 { None } else { Some(n as i64) }
    }
    pub(crate) fn below(&mut self, low: i64, high: i64) -> Option<i64> {
        self.number().filter(|n| (low..high).contains(n))
    }
    /// Bytes in lower-case hexadecimal digits.
    fn hex(&mut self, out: &mut [u8]) -> Option<()> {
        for byte in out {
            let (high, low) = (digit(*self.0.first()?)?, digit(*self.0.get(1)?)?);
            *byte = high << 4 | low;
            self.0 = &self.0[2..];
        }
        Some(())
    }
    /// SCHEMA:CHECK PREFIX FLAGS and a space.
    pub(crate) fn schema(&mut self) -> Option<Schema> {
        let mut check = [0; 3];
        let id = self.below(0, 1 << 16)? as u16;
        self.want(b':')?;
        self.hex(&mut check)?;
        self.want(b' ')?;
        let prefix = self.below(HEADER as i64, 1 << 16)? as usize;
        self.want(b' ')?;
        let flags = self.below(0, 1 << 8)? as u8;
        self.want(b' ')?;
        Some(Schema { id, check, prefix, flags })
    }
}

fn digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

/// The tags of one series and key in a token.
struct Tags {
    mid: i64,
    moid: i32,
    key: u32,
    first: usize,
    n: usize,
}

/// The tags of one field that a query selects by. A client with keys makes it.
pub struct Token {
    pub schema: Schema,
    pub offset: usize, // of the tag in a payload
    pub width: usize,  // of the tag: 8 or 16
    any_device: bool,  // tags are those of all devices
    series: List<Tags>, // by moid, mid and key
    tags: List<Option<[u8; 16]>>, // None where a range has no end
    last: Cell<usize>,
}

impl Token {
    /// Reads a token:
    ///
    /// `SCHEMA:CHECK PREFIX FLAGS OFFSET WIDTH;KEY MID MOID TAG,TAG,...;...`
    ///
    /// MID is * where the tags are those of all devices, and a TAG is - where a range has no end.
    pub fn of(text: &[u8]) -> Result<Token, Error> {
        let bad = || error(EPARAM, format_args!("token must be one that sdk/seal or pentad seal \
            made"));
        let mut text = Text(text);
        let mut t = Token::front(&mut text).ok_or_else(bad)?;
        while text.next(b';') && !text.0.is_empty() {
            let one = t.names(&mut text).ok_or_else(bad)?;
            let at = t.position(one.moid, one.mid, one.key).err().ok_or_else(bad)?;
            t.series.insert(at, one)?;
            loop {
                let tag = t.tag(&mut text).ok_or_else(bad)?;
                t.tags.push(tag)?;
                t.series[at].n += 1;
                if !text.next(b',') {
                    break;
                }
            }
        }
        if text.0.is_empty() { Ok(t) } else { Err(bad()) }
    }

    fn front(text: &mut Text) -> Option<Token> {
        let schema = text.schema()?;
        let offset = text.below(HEADER as i64, 1 << 16)? as usize;
        text.want(b' ')?;
        let width = text.number().filter(|w| matches!(w, 8 | 16))? as usize;
        let (series, tags, last) = (List::new(), List::new(), Cell::new(0));
        let t = Token { schema, offset, width, any_device: false, series, tags, last };
        if offset + width <= schema.prefix { Some(t) } else { None }
    }

    /// KEY MID MOID and a space.
    fn names(&mut self, text: &mut Text) -> Option<Tags> {
        let key = text.below(0, 1 << 32)? as u32;
        text.want(b' ')?;
        let any = text.next(b'*');
        if !self.series.is_empty() && any != self.any_device {
            return None;
        }
        self.any_device = any;
        let mid = if any { 0 } else { text.number()? };
        text.want(b' ')?;
        let moid = text.below(i32::MIN as i64, 1 << 31)? as i32;
        text.want(b' ')?;
        Some(Tags { mid, moid, key, first: self.tags.len(), n: 0 })
    }

    fn tag(&self, text: &mut Text) -> Option<Option<[u8; 16]>> {
        if text.next(b'-') {
            return Some(None);
        }
        let mut tag = [0; 16];
        text.hex(&mut tag[..self.width])?;
        Some(Some(tag))
    }

    /// Where the tags of a series are, or would be.
    fn position(&self, moid: i32, mid: i64, key: u32) -> Result<usize, usize> {
        self.series.binary_search_by(|s| (s.moid, s.mid, s.key).cmp(&(moid, mid, key)))
    }

    /// Whether it is a token of a range: two ends for each series.
    pub fn is_range(&self) -> bool { self.series.iter().all(|s| s.n == 2) }

    /// Whether it is a token of a value: whole equality tags.
    pub fn is_equal(&self) -> bool { self.width == TAG && self.tags.iter().all(|t| t.is_some()) }

    /// The tags for row i.
    fn tags_of(&self, b: &Batch, i: usize, p: &[u8]) -> Result<&[Option<[u8; 16]>], Error> {
        let h = self.schema.header(p).ok_or_else(|| self.schema.other(p, i))?;
        let (moid, mid) = (b.moid()[i], if self.any_device { 0 } else { b.mid()[i] });
        let is = |s: &&Tags| s.key == h.key && s.moid == moid && s.mid == mid;
        let s = match self.series.get(self.last.get()).filter(is) {
            Some(s) => s,
            None => {
                let at = self.position(moid, mid, h.key).map_err(|_| error(ETOKEN, format_args!(
                    "the token has no tags for key {} of mid {}, moid {}; ask with a token of all \
                    series and keys of the query", h.key, b.mid()[i], moid)))?;
                self.last.set(at);
                &self.series[at]
            }
        };
        Ok(&self.tags[s.first..s.first + s.n])
    }

    /// Whether the value of row i, whose payload is p, is in the range of the token, which
    /// [`Token::is_range`]. The batch has mid, moid and payloads.
    pub fn in_range(&self, b: &Batch, i: usize, p: &[u8]) -> Result<bool, Error> {
        let ends = self.tags_of(b, i, p)?;
        let own = &p[self.offset..self.offset + self.width];
        let side = |k: usize, wrong: Ordering| {
            ends[k].map_or(true, |end| compare(own, &end[..self.width]) != wrong)
        };
        Ok(side(0, Ordering::Less) && side(1, Ordering::Greater))
    }

    /// Whether row i, whose payload is p, has the value of the token, which [`Token::is_equal`].
    /// The batch has mid, moid and payloads.
    pub fn is_one(&self, b: &Batch, i: usize, p: &[u8]) -> Result<bool, Error> {
        let (tags, own) = (self.tags_of(b, i, p)?, u64_at(p, self.offset));
        Ok(tags.iter().any(|tag| tag.map_or(false, |tag| u64_at(&tag, 0) == own)))
    }
}
