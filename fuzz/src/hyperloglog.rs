//! A string that is said to be a HyperLogLog and holds anything.

use keyspace::value::hyperloglog::HyperLogLog;

/// It is counted, changed and made dense; what has been counted is counted the same in the other form.
pub fn hyperloglog(data: &[u8]) {
    let bytes = [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80", data].concat();
    let mut log = HyperLogLog::of(bytes.into()).expect("it has the form");
    let count = log.count();
    let mut dense = log.clone();
    assert_eq!(dense.make_dense().is_ok(), count.is_ok());
    if count.is_ok() {
        assert_eq!(dense.count(), count);
    }
    for element in data.chunks(3) {
        let added = log.add(element, 3000);
        if count.is_ok() {
            assert_eq!(added, dense.add(element, 3000));
        }
    }
    assert_eq!(log.count().is_ok(), count.is_ok());
}
