//! Places on earth as numbers: cells of a grid, and distances.
//!
//! The grid has 2^step columns and rows, from 180 degrees west to 180 degrees east and between the latitudes at which
//! Mercator's map is a square. A cell's number has the bits of its row and its column in turns, so that cells that are near
//! have near numbers, and what is in a coarser cell is one range of numbers. With 26 steps the number fits into a score.

use std::f64::consts::PI;

/// The bits of a row, or a column, of the finest grid.
pub(super) const STEP_MAX: u32 = 26;
/// The radius that Redis takes the earth to have.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half of the equator on Mercator's map.
const MERCATOR_MAX_M: f64 = 20_037_726.37;
const RADIANS: f64 = PI / 180.0;

/// A range of degrees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Degrees {
    pub(super) min: f64,
    pub(super) max: f64,
}

/// All longitudes.
pub(super) const LONGITUDES: Degrees = Degrees { min: -180.0, max: 180.0 };
/// The latitudes of the grid.
pub(super) const LATITUDES: Degrees = Degrees { min: -85.051_128_78, max: 85.051_128_78 };
/// All latitudes, as common geohashes have them.
pub(super) const ALL_LATITUDES: Degrees = Degrees { min: -90.0, max: 90.0 };

impl Degrees {
    pub(super) fn contains(self, degrees: f64) -> bool {
        (self.min..=self.max).contains(&degrees)
    }

    /// The number of the row or column in a grid.
    fn index(self, degrees: f64, step: u32) -> u32 {
        ((degrees - self.min) / (self.max - self.min) * (1_u64 << step) as f64) as u32
    }

    /// What a row or a column covers.
    fn of(self, index: u32, step: u32) -> Self {
        let cells = (1_u64 << step) as f64;
        let scale = self.max - self.min;
        let edge = |index: f64| self.min + index / cells * scale;
        // The index behind the last one of 32 bits is taken as zero, as in C.
        Self { min: edge(f64::from(index)), max: edge(f64::from(index.wrapping_add(1))) }
    }
}

/// A place: longitude and latitude in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Point {
    /// The middle of the finest cell of a score.
    pub(super) fn of_score(score: f64) -> Self {
        let (longitude, latitude) = Cell { bits: score as u64, step: STEP_MAX }.area();
        let middle = |range: Degrees, all: Degrees| f64::midpoint(range.min, range.max).clamp(all.min, all.max);
        Self { longitude: middle(longitude, LONGITUDES), latitude: middle(latitude, LATITUDES) }
    }

    /// The number of the finest cell.
    pub(super) fn score(self) -> u64 {
        Cell::of(self, STEP_MAX, LATITUDES).bits
    }

    /// The way to another point in meters, along a great circle.
    pub(super) fn distance(self, other: Self) -> f64 {
        let sine = ((other.longitude * RADIANS - self.longitude * RADIANS) / 2.0).sin();
        if sine == 0.0 {
            return latitude_distance(self.latitude, other.latitude);
        }
        let (from, to) = (self.latitude * RADIANS, other.latitude * RADIANS);
        let rise = ((to - from) / 2.0).sin();
        let a = rise * rise + from.cos() * to.cos() * sine * sine;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }
}

/// The way between two latitudes in meters.
pub(super) fn latitude_distance(one: f64, other: f64) -> f64 {
    EARTH_RADIUS_M * (other * RADIANS - one * RADIANS).abs()
}

/// How many degrees of latitude a way is.
pub(super) fn latitude_degrees(meters: f64) -> f64 {
    meters / EARTH_RADIUS_M / RADIANS
}

/// How many degrees of longitude a way is at a latitude.
pub(super) fn longitude_degrees(meters: f64, latitude: f64) -> f64 {
    meters / EARTH_RADIUS_M / (latitude * RADIANS).cos() / RADIANS
}

/// Every other bit, from the lowest on.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// A cell of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bits: u64,
    pub(super) step: u32,
}

/// Moves the bits of a number apart.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, EVEN),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Moves every other bit together.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & EVEN;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff_u64),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

impl Cell {
    /// The cell of a point.
    pub(super) fn of(point: Point, step: u32, latitudes: Degrees) -> Self {
        let row = spread(latitudes.index(point.latitude, step));
        let column = spread(LONGITUDES.index(point.longitude, step));
        Self { bits: row | column << 1, step }
    }

    /// The longitudes and latitudes that it covers.
    pub(super) fn area(self) -> (Degrees, Degrees) {
        (LONGITUDES.of(gather(self.bits >> 1), self.step), LATITUDES.of(gather(self.bits), self.step))
    }

    /// The cell so many columns to the east and rows to the north; the grid goes around in the direction of the move.
    pub(super) fn neighbour(self, east: i32, north: i32) -> Self {
        let mask = u32::MAX >> (32 - self.step);
        // At 180 degrees the column is one behind the last, and stays it in a move to the north or to the south, as in Redis.
        let moved = |index: u32, by: i32| if by == 0 { index } else { index.wrapping_add_signed(by) & mask };
        let column = moved(gather(self.bits >> 1), east);
        let row = moved(gather(self.bits), north);
        Self { bits: spread(row) | spread(column) << 1, step: self.step }
    }

    /// The scores of what is in it, the last one not included.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = (STEP_MAX - self.step) * 2;
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

/// The step of a grid on which nine cells are likely to cover a circle.
pub(super) fn step_of(radius_m: f64, latitude: f64) -> u32 {
    if radius_m == 0.0 {
        return STEP_MAX;
    }
    let mut step = 1_i32;
    let mut reach = radius_m;
    while reach < MERCATOR_MAX_M {
        reach *= 2.0;
        step += 1;
    }
    // Towards the poles the columns are narrow.
    step -= 2 + i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    step.clamp(1, STEP_MAX as i32) as u32
}
