//! A payload of `RESTORE`, or a record on disk, that holds anything.

use keyspace::{
    rdb::{Restoring, decode_payload, decode_value, encode_payload, encode_value},
    value::ValueLimits,
};

/// What is a value is written and read again, in the form of records and in that of payloads.
pub fn value(data: &[u8]) {
    let limits = ValueLimits::redis(7);
    let Ok(value) = decode_value(data, &limits) else { return };
    let mut record = Vec::new();
    encode_value(&value, &mut record);
    let again = decode_value(&record, &limits).expect("what was written is read");
    let mut second = Vec::new();
    encode_value(&again, &mut second);
    // Elements of a hashed collection have no order, so only the length must be the same.
    assert_eq!(second.len(), record.len());
    let mut payload = Vec::new();
    encode_payload(&value, &mut payload);
    let again = decode_payload(&payload, &limits).expect("what was dumped is restored");
    in_steps(&payload, &limits);
    second.clear();
    encode_value(&again, &mut second);
    assert_eq!(second.len(), record.len());
}

/// What is read in steps is what is read in one go.
fn in_steps(payload: &[u8], limits: &ValueLimits) {
    let mut restoring = Restoring::new(*limits);
    let value = loop {
        if let Some(value) = restoring.go_on(payload, 3).expect("what was dumped is restored in steps") {
            break value;
        }
    };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    encode_value(&value, &mut one);
    encode_value(&decode_payload(payload, limits).expect("it was before"), &mut other);
    assert_eq!(one.len(), other.len());
}
