//! selects: the plugins sealed-range and sealed-equal in Rust, which one by the token.
#![no_std]

mod pentad;
mod sealed;

use pentad::{error, Batch, Bitmap, Description, Error, Filter, Params, EPARAM};
use sealed::Token;

struct Selects {
    token: Token,
    equal: bool,
}

impl Filter for Selects {
    const DESCRIPTION: Description = Description {
        name: "selects",
        doc: concat!(
            r#"{"name":"selects","payload":["bytes"],"params":[{"name":"token","type":"text","#,
            r#""size":60000},{"name":"by","type":"enum","enum":["range","equal"]}]}"#
        ),
        need: pentad::OFFSETS | pentad::DATA | pentad::MID | pentad::MOID,
        flags: 0,
        params: 16 + 60000,
        result_size: 0,
        max_batch: 0,
    };

    fn new(params: Params) -> Result<Self, Error> {
        let (token, equal) = (Token::of(params.text(0))?, params.u64(1) == 1);
        if equal && !token.is_equal() || !equal && !token.is_range() {
            return Err(error(EPARAM, format_args!("token must be one that sdk/seal or pentad seal \
                made")));
        }
        Ok(Selects { token, equal })
    }

    fn front(&self) -> usize { self.token.schema.prefix }

    fn filter(&self, b: &Batch, keep: &mut Bitmap) -> Result<(), Error> {
        for i in 0..b.rows() {
            let (t, p) = (&self.token, b.payload(i));
            if if self.equal { t.is_one(b, i, p)? } else { t.in_range(b, i, p)? } {
                keep.set(i);
            }
        }
        Ok(())
    }
}

pentad::filter!(Selects);
