use std::sync::atomic::Ordering::Relaxed;

use super::*;

/// Bans that say the same are done with, whatever stands between them; those about ages never say the same.
#[test]
fn what_is_said_again_is_done_with() {
    let bans = BanList::starting_at(0.0);
    let add = |text: &str| bans.add(Expression::parse(text).unwrap(), 1.0);
    for round in 0..3 {
        for number in 0..50 {
            add(&format!("req.url ~ ^/{number}$"));
        }
        add("obj.age > 1s");
        assert_eq!(bans.counters().duplicates.load(Relaxed), round * 50);
    }
    let open = bans.all().iter().filter(|ban| !ban.is_completed()).count();
    assert_eq!(open, 50 + 3);
    // What has been dropped is no longer looked for.
    bans.drop_unused();
    assert_eq!(bans.all().len(), 1);
    assert!(bans.inner.sayings().len() <= 1);
    add("req.url ~ ^/1$");
    assert_eq!(bans.counters().duplicates.load(Relaxed), 100);
}
