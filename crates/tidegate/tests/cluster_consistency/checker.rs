//! Whether a history of appends and reads could have come from one list that does one thing after the other (linearizability: M. Herlihy,
//! J. Wing, 1990). Values are appended once each, and an answer tells how long the list is then, so all that was seen has a place:
//! an append the one where its value stands, a read the length that it saw. What is left to be looked at is that
//!
//! 1. no value stands twice, and all reads are beginnings of one list;
//! 2. an acknowledged append has its place there;
//! 3. nothing is seen before it was asked for, and what is over before another thing begins has a place before that.
//!
//! For one key these are all conditions: operations in the order of their places, an append before the reads of its length, are the
//! sequence that is asked for.

use std::collections::{BTreeMap, HashMap};

use super::history::{Operation, Outcome};

/// What is wrong, for people.
pub fn anomalies(history: &[Operation]) -> Vec<String> {
    let mut by_key: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        by_key.entry(&operation.key).or_default().push(operation);
    }
    by_key.into_iter().flat_map(|(key, operations)| of_one_key(key, &operations)).collect()
}

fn of_one_key(key: &str, operations: &[&Operation]) -> Vec<String> {
    let mut found = Vec::new();
    let list = longest_read(operations);
    let mut place_of = HashMap::new();
    for (place, value) in list.iter().enumerate() {
        if let Some(before) = place_of.insert(*value, place + 1) {
            found.push(format!("{key}: {value} stands twice, at {before} and {}", place + 1));
        }
    }
    let mut placed = Vec::new();
    for operation in operations {
        let place = match &operation.outcome {
            Outcome::Read(values) => {
                if list.get(..values.len()) != Some(values.as_slice()) {
                    found.push(format!("{key}: a read of {} is no beginning of one of {}", values.len(), list.len()));
                }
                values.len()
            }
            Outcome::Appended { value, length } => {
                match list.get(length.wrapping_sub(1)) {
                    Some(there) if there != value => {
                        found.push(format!("{key}: {value} was appended as number {length}, where {there} stands"));
                    }
                    // The last reads are of after everything else.
                    None => found.push(format!("{key}: {value} was acknowledged as number {length}, and is lost")),
                    Some(_) => {}
                }
                *length
            }
            Outcome::Unknown { value } | Outcome::Refused { value, .. } => {
                let Some(place) = place_of.get(value) else { continue };
                if let Outcome::Refused { error, .. } = &operation.outcome {
                    found.push(format!("{key}: {value} was refused ({error}), and stands at {place}"));
                }
                *place
            }
        };
        placed.push((*operation, place));
    }
    found.extend(out_of_order(key, &placed));
    found
}

fn longest_read(operations: &[&Operation]) -> Vec<u64> {
    let reads = operations.iter().filter_map(|operation| match &operation.outcome {
        Outcome::Read(values) => Some(values),
        _ => None,
    });
    reads.max_by_key(|values| values.len()).cloned().unwrap_or_default()
}

/// Operations that began after others were over, and stand before them.
fn out_of_order(key: &str, placed: &[(&Operation, usize)]) -> Vec<String> {
    let mut by_beginning: Vec<_> = placed.to_vec();
    by_beginning.sort_by_key(|(operation, _)| operation.invoked);
    let mut by_end: Vec<_> = placed.to_vec();
    by_end.sort_by_key(|(operation, _)| operation.completed);
    let mut ended = by_end.into_iter().peekable();
    let (mut found, mut highest) = (Vec::new(), 0);
    for (operation, place) in by_beginning {
        while let Some((_, before)) = ended.next_if(|(before, _)| before.completed < operation.invoked) {
            highest = highest.max(before);
        }
        let is_read = matches!(operation.outcome, Outcome::Read(_));
        if place < highest || (place == highest && !is_read) {
            found.push(format!("{key}: {operation:?} has place {place}, after {highest} had been seen"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(invoked: u64, completed: u64, outcome: Outcome) -> Operation {
        Operation { key: "k".into(), invoked, completed, outcome }
    }

    fn append(value: u64, length: usize, invoked: u64, completed: u64) -> Operation {
        operation(invoked, completed, Outcome::Appended { value, length })
    }

    fn read(values: &[u64], invoked: u64, completed: u64) -> Operation {
        operation(invoked, completed, Outcome::Read(values.to_vec()))
    }

    #[track_caller]
    fn check(history: &[Operation], expected: &[&str]) {
        let found = anomalies(history);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found:?}");
        }
    }

    #[test]
    fn what_one_list_could_have_done_is_right() {
        let unknown = operation(0, u64::MAX, Outcome::Unknown { value: 9 });
        check(
            &[append(1, 1, 0, 10), append(2, 2, 5, 8), read(&[1], 6, 12), read(&[1, 2, 9], 20, 30), unknown.clone()],
            &[],
        );
        // It may come late, or never.
        check(&[append(1, 1, 0, 10), unknown, read(&[1], 90, 99)], &[]);
        check(&[operation(0, 5, Outcome::Refused { value: 3, error: "no".into() }), read(&[], 6, 7)], &[]);
    }

    #[test]
    fn what_no_list_could_have_done_is_found() {
        let refused = operation(0, 5, Outcome::Refused { value: 3, error: "no".into() });
        check(&[refused, read(&[3], 6, 7)], &["was refused (no)"]);
        check(&[append(1, 1, 0, 10), read(&[], 20, 30)], &["is lost", "after 1 had been seen"]);
        check(&[append(1, 1, 0, 10), append(2, 1, 20, 30), read(&[2], 40, 50)], &["where 2 stands", "has place 1"]);
        check(&[read(&[1, 1], 0, 5)], &["stands twice"]);
        check(&[read(&[1, 2], 0, 5), read(&[2], 0, 5)], &["no beginning"]);
        // A read of an old master, after a newer one has answered.
        let stale = [append(1, 1, 0, 1), append(2, 2, 2, 3), read(&[1], 4, 5), read(&[1, 2], 6, 7)];
        check(&stale, &["has place 1, after 2 had been seen"]);
        // Seen before it was asked for.
        let late = operation(10, u64::MAX, Outcome::Unknown { value: 7 });
        check(&[read(&[7], 0, 5), late], &["has place 1, after 1 had been seen"]);
    }
}
