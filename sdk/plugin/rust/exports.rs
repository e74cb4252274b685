//! exports: the functions that the host calls, made from what a module implements, and the macros
//! that name them. It belongs to pentad.rs.

use super::*;
use core::mem;

#[repr(C)]
pub struct Descriptor {
    magic: u32,
    major: u16,
    minor: u16,
    kinds: u32,
    need: u32,
    state_size: u32,
    state_align: u32,
    result_size: u32,
    params_max: u32,
    flags: u32,
    max_batch: u32,
    name: *const u8,
    name_len: u32,
    doc: *const u8,
    doc_len: u32,
    zero: [u32; 2],
}

unsafe impl Sync for Descriptor {} // its pointers are to constants

const _: () = assert!(mem::size_of::<Descriptor>() == 64 && mem::size_of::<Batch>() == 128);

// What the macros below call. They hand on addresses that the host vouches for.
const fn descriptor(kinds: u32, state: (usize, usize), flags: u32, d: Description) -> Descriptor {
    Descriptor {
        magic: 0x31445450,
        major: 1,
        minor: 0,
        kinds,
        need: d.need,
        state_size: state.0 as u32,
        state_align: state.1 as u32,
        result_size: d.result_size,
        params_max: d.params,
        flags: d.flags | flags,
        max_batch: d.max_batch,
        name: d.name.as_ptr(),
        name_len: d.name.len() as u32,
        doc: d.doc.as_ptr(),
        doc_len: d.doc.len() as u32,
        zero: [0; 2],
    }
}

pub const fn describe_states<S>(flags: u32, d: Description) -> Descriptor {
    let (size, align) = (mem::size_of::<S>(), mem::align_of::<S>());
    assert!(size > 0 && size <= 65536, "a state has 1 to 65536 bytes");
    descriptor(2, (size, align), flags, d)
}

pub const fn describe_filter<F: Filter>() -> Descriptor {
    descriptor(1, (0, 1), 0, F::DESCRIPTION)
}

fn status(result: Result<(), Error>) -> i32 {
    result.map_or_else(|e| e.0, |_| 0)
}

pub fn init<T>(to: &mut Option<T>, new: fn(Params) -> Result<T, Error>, front: fn(&T) -> usize,
               at: *const u8, n: u32) -> i32 {
    let params = column(at, n);
    if params.len() % 8 != 0 {
        return error(EPARAM, format_args!("parameters have 8 bytes each")).0;
    }
    match new(Params(params)) {
        Ok(plugin) => i32::try_from(front(to.insert(plugin))).unwrap_or(0),
        Err(e) => e.0,
    }
}

/// The plugin, which pentad_init made.
pub fn made<T>(plugin: &Option<T>) -> &T {
    plugin.as_ref().expect("pentad_init comes first")
}

pub unsafe fn keep_rows<F: Filter>(f: &F, b: *const Batch, bitmap: *mut u64) -> i32 {
    let words = ((*b).rows() + 63) / 64;
    status(f.filter(&*b, &mut Bitmap(slice::from_raw_parts_mut(bitmap, words))))
}

pub unsafe fn state_init<S>(states: *mut S, n: u32, fresh: impl Fn() -> S) {
    for i in 0..n as usize {
        states.add(i).write(fresh());
    }
}

pub unsafe fn add<S>(b: *const Batch, states: *mut S,
                     add: impl Fn(&Batch, &mut [S]) -> Result<(), Error>) -> i32 {
    status(add(&*b, slice::from_raw_parts_mut(states, (*b).groups())))
}

pub unsafe fn merge<A: Aggregate>(a: &A, dst: *mut A::State, src: *const A::State, n: u32) -> i32 {
    for i in 0..n as usize {
        if let Err(e) = a.merge(&mut *dst.add(i), &*src.add(i)) {
            return e.0;
        }
    }
    0
}

pub unsafe fn save<G: Growing>(g: &G, s: *const G::State, out: *mut u8, room: u32) -> i32 {
    let mut out = Out { to: slice::from_raw_parts_mut(out, room as usize), used: 0, full: false };
    g.save(&*s, &mut out);
    if out.full { ECAP } else { out.used as i32 }
}

pub unsafe fn load<G: Growing>(g: &G, s: *mut G::State, saved: *const u8, n: u32) -> i32 {
    status(g.load(&mut *s, In::new(column(saved, n))))
}

pub unsafe fn link_predecessor<S, L: PredecessorLinker<S>>(l: &L, s: *mut S, p: *const S) -> i32 {
    status(l.link_predecessor(&mut *s, &*p))
}

pub unsafe fn finish<S>(states: *const S, n: u32, out: *mut u8, room: u32, differ: bool,
                        finish: impl Fn(&S, &mut Out)) -> i32 {
    let to = slice::from_raw_parts_mut(out, room as usize);
    let mut out = Out { to, used: 0, full: false };
    for i in 0..n as usize {
        let from = out.used;
        out.bytes(if differ { &[0; 4] } else { &[] });
        finish(&*states.add(i), &mut out);
        if differ && !out.full {
            let size = (out.used - from - 4) as u32;
            out.to[from..from + 4].copy_from_slice(&size.to_le_bytes());
            out.bytes(&[0; 3][..size.wrapping_neg() as usize % 4]);
        }
        if out.full {
            return ECAP;
        }
    }
    out.used as i32
}

/// Makes a type the module's aggregate; with `links_predecessors` also a [`PredecessorLinker`].
macro_rules! aggregate {
    ($plugin:ty $(, $links:ident)?) => {
        crate::pentad::export_all!($plugin, Aggregate, 0 $(, $links)?, {
            #[no_mangle]
            unsafe extern "C" fn pentad_merge(dst: *mut State, src: *const State, n: u32) -> i32 {
                pentad::merge(plugin(), dst, src, n)
            }
        });
    };
}

/// Makes a type the module's aggregate, whose states grow; `links_predecessors` as there.
macro_rules! growing {
    ($plugin:ty $(, $links:ident)?) => {
        crate::pentad::export_all!($plugin, Growing, pentad::GROWS $(, $links)?, {
            #[no_mangle]
            unsafe extern "C" fn pentad_save(s: *const State, out: *mut u8, room: u32) -> i32 {
                pentad::save(plugin(), s, out, room)
            }
            #[no_mangle]
            unsafe extern "C" fn pentad_load(s: *mut State, saved: *const u8, n: u32) -> i32 {
                pentad::load(plugin(), s, saved, n)
            }
        });
    };
}

/// The exports that all aggregates have, and more.
macro_rules! export_all {
    ($plugin:ty, $kind:ident, $flags:expr, links_predecessors, {$($more:item)*}) => {
        crate::pentad::export_all!($plugin, $kind, $flags | pentad::LINKS_PREDECESSORS, {
            $($more)*
            #[no_mangle]
            unsafe extern "C" fn pentad_link_predecessor(s: *mut State, p: *const State) -> i32 {
                pentad::link_predecessor(plugin(), s, p)
            }
        });
    };
    ($plugin:ty, $kind:ident, $flags:expr, {$($more:item)*}) => {
        const _: () = {
            use crate::pentad::{self, Batch, Descriptor, $kind};
            use core::ptr::addr_of_mut;
            type State = <$plugin as $kind>::State;
            static DESCRIPTOR: Descriptor =
                pentad::describe_states::<State>($flags, <$plugin as $kind>::DESCRIPTION);
            static mut PLUGIN: Option<$plugin> = None;
            fn plugin() -> &'static $plugin { pentad::made(unsafe { &*addr_of_mut!(PLUGIN) }) }
            #[no_mangle]
            extern "C" fn pentad_describe() -> *const Descriptor { &DESCRIPTOR }
            #[no_mangle]
            extern "C" fn pentad_init(params: *const u8, n: u32) -> i32 {
                let to = unsafe { &mut *addr_of_mut!(PLUGIN) };
                pentad::init(to, <$plugin as $kind>::new, <$plugin as $kind>::front, params, n)
            }
            #[no_mangle]
            unsafe extern "C" fn pentad_state_init(states: *mut State, n: u32) {
                pentad::state_init(states, n, || plugin().fresh())
            }
            #[no_mangle]
            unsafe extern "C" fn pentad_add(b: *const Batch, states: *mut State) -> i32 {
                pentad::add(b, states, |b, s| plugin().add(b, s))
            }
            #[no_mangle]
            unsafe extern "C" fn pentad_finish(s: *const State, n: u32, out: *mut u8,
                                               room: u32) -> i32 {
                let differ = <$plugin as $kind>::DESCRIPTION.result_size == 0;
                pentad::finish(s, n, out, room, differ, |s, out| plugin().finish(s, out))
            }
            $($more)*
        };
    };
}

/// Makes a type the module's filter.
macro_rules! filter {
    ($plugin:ty) => {
        const _: () = {
            use crate::pentad::{self, Batch, Descriptor, Filter};
            use core::ptr::addr_of_mut;
            static DESCRIPTOR: Descriptor = pentad::describe_filter::<$plugin>();
            static mut PLUGIN: Option<$plugin> = None;
            #[no_mangle]
            extern "C" fn pentad_describe() -> *const Descriptor { &DESCRIPTOR }
            #[no_mangle]
            extern "C" fn pentad_init(params: *const u8, n: u32) -> i32 {
                let to = unsafe { &mut *addr_of_mut!(PLUGIN) };
                pentad::init(to, <$plugin as Filter>::new, <$plugin as Filter>::front, params, n)
            }
            #[no_mangle]
            unsafe extern "C" fn pentad_filter(b: *const Batch, bitmap: *mut u64) -> i32 {
                pentad::keep_rows(pentad::made(&*addr_of_mut!(PLUGIN)), b, bitmap)
            }
        };
    };
}

pub(crate) use {aggregate, export_all, filter, growing};
