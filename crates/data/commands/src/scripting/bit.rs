//! The library `bit`: operations on 32 bits, as LuaJIT's BitOp has them.

use mlua::{Lua, Table, Variadic};

/// A number's 32 bits: numbers wrap.
fn bits(number: f64) -> i32 {
    (number.rem_euclid(4_294_967_296.0).round() as u64) as u32 as i32
}

/// Makes the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let fold = |each: fn(i32, i32) -> i32| {
        lua.create_function(move |_, numbers: Variadic<f64>| {
            let folded = numbers.iter().map(|number| bits(*number)).reduce(each);
            folded.map(f64::from).ok_or_else(|| mlua::Error::runtime("bad argument #1 (number expected, got no value)"))
        })
    };
    table.set("band", fold(|one, other| one & other)?)?;
    table.set("bor", fold(|one, other| one | other)?)?;
    table.set("bxor", fold(|one, other| one ^ other)?)?;
    let shift = |each: fn(i32, u32) -> i32| {
        lua.create_function(move |_, (number, by): (f64, f64)| {
            Ok(f64::from(each(bits(number), (bits(by) & 31) as u32)))
        })
    };
    table.set("lshift", shift(|number, by| number << by)?)?;
    table.set("rshift", shift(|number, by| ((number as u32) >> by) as i32)?)?;
    table.set("arshift", shift(|number, by| number >> by)?)?;
    table.set("rol", shift(|number, by| number.rotate_left(by))?)?;
    table.set("ror", shift(|number, by| number.rotate_right(by))?)?;
    table.set("tobit", lua.create_function(|_, number: f64| Ok(f64::from(bits(number))))?)?;
    table.set("bnot", lua.create_function(|_, number: f64| Ok(f64::from(!bits(number))))?)?;
    table.set("bswap", lua.create_function(|_, number: f64| Ok(f64::from(bits(number).swap_bytes())))?)?;
    let tohex = |_: &Lua, (number, digits): (f64, Option<f64>)| {
        let digits = digits.map_or(8, bits);
        let text = format!("{:08x}", bits(number) as u32);
        let kept = text.get(8 - digits.unsigned_abs().min(8) as usize..).unwrap_or_default().to_owned();
        Ok(if digits < 0 { kept.to_ascii_uppercase() } else { kept })
    };
    table.set("tohex", lua.create_function(tohex)?)?;
    Ok(table)
}
