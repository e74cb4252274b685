//! odd: keeps records of devices with odd numbers, or fails in the way that it is told.
#![no_std]

mod pentad;

use pentad::{error, note, Batch, Bitmap, Description, Error, Filter, Params};

struct Odd {
    fail: u64,
}

impl Filter for Odd {
    const DESCRIPTION: Description = Description {
        name: "odd",
        doc: r#"{"name":"odd","params":[{"name":"fail","type":"enum","default":"no",
            "enum":["no","index","throw","long","status","init","note"]}]}"#,
        need: pentad::MID | pentad::SERIES,
        flags: 0,
        params: 8,
        result_size: 0,
        max_batch: 0,
    };

    fn new(params: Params) -> Result<Self, Error> {
        let fail = if params.count() == 0 { 0 } else { params.u64(0) };
        assert!(fail != 5, "told to fail in init");
        Ok(Odd { fail })
    }

    fn filter(&self, b: &Batch, keep: &mut Bitmap) -> Result<(), Error> {
        for r in b.series_rows().filter(|r| r.mid % 2 != 0) {
            (r.from..r.to).for_each(|i| keep.set(i));
        }
        match self.fail {
            1 => keep.set(b.mid()[b.rows()] as usize),
            2 => panic!("mid {} is not to my taste", b.mid()[0]),
            3 => panic!("{}{}", "é€😀", unsafe { core::str::from_utf8_unchecked(&[b'a'; 2000]) }),
            6 => b.mid().iter().for_each(|mid| note(format_args!("mid {}", mid))),
            _ => {}
        }
        if self.fail == 4 || self.fail == 6 {
            return Err(error(-123, format_args!("batch {} is refused", b.seq())));
        }
        Ok(())
    }
}

pentad::filter!(Odd);
