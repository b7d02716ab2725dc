//! From registers to a number: Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017),
//! algorithm 6.

use super::{REGISTERS, Registers, VALUE_MAX};

/// 1 / (2 ln 2)
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Estimates how many elements made the registers what they are.
pub fn count(registers: &Registers) -> u64 {
    let mut histogram = [0_u32; 64];
    for value in registers {
        if let Some(count) = histogram.get_mut(usize::from(*value)) {
            *count += 1;
        }
    }
    let of = |value: usize| f64::from(histogram.get(value).copied().unwrap_or(0));
    let m = REGISTERS as f64;
    let mut z = m * tau((m - of(VALUE_MAX)) / m);
    for value in (1..VALUE_MAX).rev() {
        z += of(value);
        z *= 0.5;
    }
    z += m * sigma(of(0) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let mut y = 1.0;
    let mut z = x;
    loop {
        x *= x;
        let former = z;
        z += x * y;
        y += y;
        if z == former {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let mut y = 1.0;
    let mut z = 1.0 - x;
    loop {
        x = x.sqrt();
        let former = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == former {
            return z / 3.0;
        }
    }
}
