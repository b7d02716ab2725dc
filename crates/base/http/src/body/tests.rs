use super::{BodyTracker, Tracked};
use crate::body_length::BodyLength;
use crate::limits::Limits;

fn tracker(length: BodyLength) -> BodyTracker {
    BodyTracker::new(length, &Limits::default())
}

#[track_caller]
fn check(tracker: &mut BodyTracker, bytes: &[u8], belonging: usize, ended: bool) {
    check_data(tracker, bytes, belonging, belonging, ended);
}

#[track_caller]
fn check_data(tracker: &mut BodyTracker, bytes: &[u8], belonging: usize, data: usize, ended: bool) {
    assert_eq!(tracker.track(bytes), Ok(Tracked { belonging, data, ended }));
}

#[test]
fn no_body() {
    for length in [BodyLength::None, BodyLength::Exact(0)] {
        let mut tracker = tracker(length);
        assert!(tracker.has_ended());
        assert_eq!(tracker.unseen_max(), 0);
        check(&mut tracker, b"next", 0, true);
        assert_eq!(tracker.account(5), 0);
        assert!(tracker.close());
    }
}

#[test]
fn exact() {
    let mut tracker = tracker(BodyLength::Exact(10));
    check(&mut tracker, b"", 0, false);
    check(&mut tracker, b"123", 3, false);
    assert_eq!(tracker.unseen_max(), 7);
    assert_eq!(tracker.account(4), 4);
    assert!(!tracker.clone().close());
    check(&mut tracker, b"890next", 3, true);
    check(&mut tracker, b"next", 0, true);

    let mut tracker = BodyTracker::new(BodyLength::Exact(u64::MAX), &Limits::default());
    assert_eq!(tracker.account(u64::MAX), u64::MAX);
    assert!(tracker.has_ended());
}

#[test]
fn until_close() {
    let mut tracker = tracker(BodyLength::UntilClose);
    check(&mut tracker, b"12345", 5, false);
    assert_eq!(tracker.account(1 << 40), 1 << 40);
    assert_eq!(tracker.unseen_max(), u64::MAX);
    assert!(tracker.close());
    assert!(tracker.has_ended());
}

#[test]
fn chunked() {
    let mut tracker = tracker(BodyLength::Chunked);
    check_data(&mut tracker, b"a\r", 2, 0, false);
    assert_eq!(tracker.unseen_max(), 0);
    assert_eq!(tracker.account(5), 0);
    check_data(&mut tracker, b"\n12", 3, 2, false);
    assert_eq!(tracker.unseen_max(), 8);
    assert_eq!(tracker.account(100), 8);
    assert!(!tracker.clone().close());
    check_data(&mut tracker, b"\r\n0\r\n\r\nGET /", 7, 0, true);
    check(&mut tracker, b"GET /", 0, true);
}

#[test]
fn malformed() {
    let mut tracker = tracker(BodyLength::Chunked);
    assert!(tracker.track(b"-1\r\n").is_err());
    assert!(!tracker.close());
}
