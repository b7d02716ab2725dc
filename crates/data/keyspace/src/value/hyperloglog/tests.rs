use super::*;

const SPARSE_MAX: usize = 3000;

fn with_elements(count: u64) -> HyperLogLog<'static> {
    let mut log = HyperLogLog::default();
    for number in 0..count {
        log.add(&number.to_le_bytes(), SPARSE_MAX).expect("it is intact");
    }
    log
}

#[test]
fn counts_are_close() {
    for count in [0, 1, 10, 100, 1000, 10_000, 100_000] {
        let estimate = with_elements(count).count().expect("it is intact");
        let error = estimate.abs_diff(count) as f64;
        assert!(error <= 0.03 * count as f64, "{estimate} of {count}");
    }
}

#[test]
fn both_forms_hold_the_same() {
    for count in [0, 5, 500] {
        let sparse = with_elements(count);
        assert_eq!(sparse.encoding(), Encoding::Sparse);
        let mut dense = sparse.clone();
        dense.make_dense().expect("it is intact");
        assert_eq!((dense.encoding(), dense.bytes().len()), (Encoding::Dense, 12_304));
        let (mut left, mut right) = ([0; REGISTERS], [0; REGISTERS]);
        sparse.merge_into(&mut left).expect("it is intact");
        dense.merge_into(&mut right).expect("it is intact");
        assert!(left == right);
        assert_eq!(sparse.count(), dense.count());
        // What is added later ends up the same.
        let (mut one, mut other) = (sparse, dense);
        for number in 1000..9000_u64 {
            let element = number.to_le_bytes();
            assert_eq!(one.add(&element, SPARSE_MAX), other.add(&element, SPARSE_MAX), "{number}");
        }
        assert_eq!(one.encoding(), Encoding::Dense);
        one.invalidate();
        other.invalidate();
        assert_eq!(one, other);
    }
}

#[test]
fn what_is_no_hyperloglog_is_refused() {
    for bytes in
        [b"".as_slice(), b"HYLL", b"XYLL\x01xxxxxxxxxxxxxxxx", b"HYLL\x02xxxxxxxxxxxxxxxx", b"HYLL\x00xxxxxxxxxxxxxxxx"]
    {
        assert!(HyperLogLog::of(bytes.into()).is_none());
    }
}

#[test]
fn corrupt_runs_are_found() {
    let runs: [&[u8]; 7] = [b"", &[0], &[0x7f], &[0x7f, 0xff, 0], &[0x7f, 0xff, 0x80], &[0x80; 20_000], &[0x7f, 0xfe]];
    for runs in runs {
        let bytes = [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80", runs].concat();
        let mut log = HyperLogLog::of(bytes.into()).expect("it has the form");
        assert_eq!(log.count(), Err(Corrupt), "{runs:?}");
        assert_eq!(log.make_dense(), Err(Corrupt));
        for number in 0..100_u64 {
            let _ = log.add(&number.to_le_bytes(), SPARSE_MAX);
        }
    }
}
