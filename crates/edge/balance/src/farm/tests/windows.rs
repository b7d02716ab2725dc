//! Checks that are counted in a window.

use super::*;
use crate::probe::Window;

fn windowed(initial: Option<u32>) -> Farm<u32> {
    let config = CheckConfig { inter_ms: 1_000, window: Some(Window::new(5, 3, initial)), ..CheckConfig::default() };
    farm(FarmConfig::default(), vec![ServerConfig { check: Some(config), ..server("s1") }])
}

#[test]
fn one_good_check_is_enough_at_the_start() {
    let mut farm = windowed(None);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "DOWN 2/3");
    assert_eq!(farm.usable(), 0);
    assert_eq!(check(&mut farm, FIRST, CheckStatus::Layer7Ok, 0), 1_000);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "UP 1/3");
    assert_eq!(assigned(pick(&mut farm)), FIRST);
}

#[test]
fn bad_checks_count_until_they_leave_the_window() {
    let mut farm = windowed(Some(3));
    assert_eq!(assigned(pick(&mut farm)), FIRST);
    let (good, bad) = (CheckStatus::Layer7Ok, CheckStatus::Layer7Status);
    // The window: 00111 at the start.
    for (step, (status, count, is_up)) in
        [(bad, 3, true), (good, 4, true), (bad, 3, true), (bad, 2, false), (good, 2, false), (good, 3, true)]
            .into_iter()
            .enumerate()
    {
        assert_eq!(check(&mut farm, FIRST, status, step as u64 * 1_000), 1_000, "{step}");
        let probes = farm.probes(FIRST).unwrap();
        assert_eq!((probes.good_count(), probes.is_healthy()), (count, is_up), "{step}");
        assert_eq!(farm.usable() == 1, is_up, "{step}");
    }
    assert_eq!(farm.probes(FIRST).unwrap().bits() & 0b1_1111, 0b1_0011);
}
