//! `math.random` of scripts: a generator of 48 bits as the C library's `drand48` family has it, so that a seed gives the
//! numbers that it gives on Redis.

use std::{cell::Cell, rc::Rc};

use mlua::{Lua, Table, Value};

use crate::library;

/// One more than the greatest number that is drawn.
const RANGE: u64 = 1 << 31;

/// The generator.
#[derive(Debug, Clone, Copy)]
pub struct ScriptRandom(u64);

impl ScriptRandom {
    /// From a seed of 32 bits.
    pub fn new(seed: i32) -> Self {
        Self(u64::from(seed as u32) << 16 | 0x330e)
    }

    /// The next number, of 31 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        self.0 >> 17
    }

    /// Puts `random` and `randomseed` into a table.
    pub fn put(lua: &Lua, table: &Table) -> mlua::Result<()> {
        let generator = Rc::new(Cell::new(Self::new(0)));
        let drawn = Rc::clone(&generator);
        library::put(lua, table, "random", move |lua, arguments| {
            let mut generator = drawn.get();
            // As Lua divides: by the greatest number, and never one.
            let fraction = (generator.draw() % (RANGE - 1)) as f64 / (RANGE - 1) as f64;
            drawn.set(generator);
            let bound = |index| Ok::<f64, mlua::Error>(library::number(lua, &arguments, index, "random")?.trunc());
            let number = match arguments.len() {
                0 => fraction,
                1 => {
                    let upper = bound(0)?;
                    if upper < 1.0 {
                        return Err(library::bad_argument(1, "random", "interval is empty"));
                    }
                    (fraction * upper).floor() + 1.0
                }
                2 => {
                    let (lower, upper) = (bound(0)?, bound(1)?);
                    if lower > upper {
                        return Err(library::bad_argument(2, "random", "interval is empty"));
                    }
                    (fraction * (upper - lower + 1.0)).floor() + lower
                }
                _ => return Err(library::raised("wrong number of arguments")),
            };
            Ok(Value::Number(number))
        })?;
        library::put(lua, table, "randomseed", move |lua, arguments| {
            generator.set(Self::new(library::number(lua, &arguments, 0, "randomseed")? as i64 as i32));
            Ok(Value::Nil)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of `lrand48` after `srand48(1)`.
    #[test]
    fn numbers_are_those_of_the_c_library() {
        let mut random = ScriptRandom::new(1);
        let numbers: Vec<u64> = (0..4).map(|_| random.draw()).collect();
        assert_eq!(numbers, [89_400_484, 976_015_093, 1_792_756_325, 721_524_505]);
    }
}
