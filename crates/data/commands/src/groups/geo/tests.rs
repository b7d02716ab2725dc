use keyspace::random::Random;

use super::*;
use crate::groups::testing::Shard;

#[test]
fn places_survive_being_numbers() {
    let mut random = Random::new(9);
    let mut degrees = |most: f64| (random.below(2_000_001) as f64 / 1_000_000.0 - 1.0) * most;
    for _ in 0..2000 {
        let point = Point { longitude: degrees(180.0), latitude: degrees(85.05) };
        let again = Point::of_score(point.score() as f64);
        assert!(point.distance(again) < 1.0, "{point:?} {again:?}");
    }
}

#[test]
fn neighbours_touch() {
    let cell = Cell::of(Point { longitude: 179.99, latitude: 10.0 }, 12, LATITUDES);
    let (columns, rows) = cell.area();
    assert_eq!(cell.neighbour(-1, 0).area().0.max, columns.min);
    assert_eq!(cell.neighbour(0, 1).area().1.min, rows.max);
    // Around the earth.
    assert_eq!(cell.neighbour(1, 0).area().0.min, -180.0);
    assert_eq!(cell.neighbour(1, 1).neighbour(-1, -1), cell);
}

#[test]
fn the_log_has_scores() {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.ask(client, "GEOADD g NX CH 13.361389 38.115556 a");
    shard.ask(client, "GEOADD g 13.361389 38.115556 a");
    shard.ask(client, "GEOSEARCHSTORE d g FROMLONLAT 13 38 BYRADIUS 100 km");
    assert_eq!(shard.log(), ["ZADD g NX CH 3479099956230698 a", "GEOSEARCHSTORE d g FROMLONLAT 13 38 BYRADIUS 100 km"]);
}
