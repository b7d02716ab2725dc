//! Shapes to search in, and the cells that cover them.

use super::cell::{Cell, Degrees, LATITUDES, Point, latitude_degrees, latitude_distance, longitude_degrees, step_of};

/// What is searched around a point; lengths are in meters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// A shape around a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) center: Point,
    pub(super) shape: Shape,
}

impl Area {
    /// The distance of a point from the center, if it is within.
    pub(super) fn distance(&self, point: Point) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius } => Some(self.center.distance(point)).filter(|distance| *distance <= radius),
            Shape::Box { width, height } => {
                if latitude_distance(point.latitude, self.center.latitude) > height / 2.0 {
                    return None;
                }
                let beside = Point { longitude: self.center.longitude, latitude: point.latitude };
                if point.distance(beside) > width / 2.0 {
                    return None;
                }
                Some(self.center.distance(point))
            }
        }
    }

    /// The longitudes and latitudes that it reaches.
    fn bounds(&self) -> (Degrees, Degrees) {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let Point { longitude, latitude } = self.center;
        let rise = latitude_degrees(height);
        // Wider where the parallels are shorter: at the side towards the pole.
        let reach = longitude_degrees(width, if latitude < 0.0 { latitude - rise } else { latitude + rise });
        (
            Degrees { min: longitude - reach, max: longitude + reach },
            Degrees { min: latitude - rise, max: latitude + rise },
        )
    }

    /// Nine cells or fewer that cover it: the one of the center, then those around it.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let radius = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt(),
        };
        let (longitudes, latitudes) = self.bounds();
        let mut step = step_of(radius, self.center.latitude);
        let mut center = Cell::of(self.center, step, LATITUDES);
        // Near an edge of its cell a shape may reach beyond the next one.
        let north = center.neighbour(0, 1).area().1.max < latitudes.max;
        let south = center.neighbour(0, -1).area().1.min > latitudes.min;
        let east = center.neighbour(1, 0).area().0.max < longitudes.max;
        let west = center.neighbour(-1, 0).area().0.min > longitudes.min;
        if step > 1 && (north || south || east || west) {
            step -= 1;
            center = Cell::of(self.center, step, LATITUDES);
        }
        let (columns, rows) = center.area();
        let needless = |east: i32, north: i32| {
            step >= 2
                && (north < 0 && rows.min < latitudes.min
                    || north > 0 && rows.max > latitudes.max
                    || east < 0 && columns.min < longitudes.min
                    || east > 0 && columns.max > longitudes.max)
        };
        let around = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells = vec![center];
        for (east, north) in around.into_iter().filter(|(east, north)| !needless(*east, *north)) {
            // On a coarse grid the neighbours on both sides are the same cell.
            let cell = center.neighbour(east, north);
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}
