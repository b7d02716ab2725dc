//! How many files and sockets the process may have open: as many as its clients and its tables need, or fewer clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{StoreError, messages};

/// What is open besides clients and tables: the log, listeners, what threads wake one another with, keys on their way elsewhere.
const RESERVED: u64 = 96;
/// Files of the tables that are open at once: so many if the limit has room for them, and so many at least.
const TABLES_MAX: u64 = 512;
const TABLES_MIN: u64 = 64;

/// Raises the limit as far as `clients` need it and the system lets it be. Returns how many there may be, which is an error if
/// that is none, and says so if it is fewer.
///
/// # Errors
///
/// There is no room for a single one.
pub fn make_room(clients: i64) -> Result<i64, StoreError> {
    let wanted = needed(clients, TABLES_MAX);
    let limit = raise(wanted);
    let allowed = allowed(limit, clients);
    if allowed < 1 {
        return Err(StoreError::Descriptors { limit, least: needed(clients, TABLES_MIN) });
    }
    if allowed < clients {
        let needed = needed(clients, TABLES_MIN);
        messages::warn(&format!(
            "You requested maxclients of {clients} requiring at least {needed} max file descriptors."
        ));
        messages::warn(&format!(
            "Current maximum open files is {limit}. maxclients has been reduced to {allowed} to compensate for low ulimit. If \
             you need higher maxclients increase 'ulimit -n' (LimitNOFILE= in a unit of systemd)."
        ));
    }
    Ok(allowed)
}

/// The same while the store runs, and its tables have what files they want.
///
/// # Errors
///
/// There may not be so many: this many there may be.
pub fn make_more_room(clients: i64) -> Result<(), i64> {
    let wanted = needed(clients, TABLES_MAX);
    let limit = raise(wanted);
    if limit >= wanted { Ok(()) } else { Err(i64::try_from(limit.saturating_sub(RESERVED + TABLES_MAX)).unwrap_or(0)) }
}

/// How many files the tables may have open beside so many clients.
pub fn of_tables(clients: i64) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let rest = limit.saturating_sub(needed(clients, 0)).clamp(TABLES_MIN, TABLES_MAX);
    usize::try_from(rest).unwrap_or(0)
}

fn needed(clients: i64, tables: u64) -> u64 {
    clients.unsigned_abs().saturating_add(RESERVED + tables)
}

fn allowed(limit: u64, clients: i64) -> i64 {
    i64::try_from(limit.saturating_sub(RESERVED + TABLES_MIN)).unwrap_or(i64::MAX).min(clients)
}

/// Raises the limit, if it is lower than what is wanted. Returns what it is.
fn raise(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    // Beyond the second limit goes who may; all others get as far as that.
    let beyond = limit.maximum.is_some_and(|maximum| maximum < wanted).then_some((wanted, wanted));
    let within = (limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)), limit.maximum.unwrap_or(u64::MAX));
    for (current, maximum) in beyond.into_iter().chain([within]) {
        let maximum = (maximum != u64::MAX).then_some(maximum);
        if setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).is_ok() {
            return current;
        }
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_as_many_as_the_limit_has_room_for() {
        for (limit, clients, expected) in
            [(100_000, 10_000, 10_000), (1024, 10_000, 864), (1024, 100, 100), (160, 10, 0), (161, 10, 1), (0, 1, 0)]
        {
            assert_eq!(allowed(limit, clients), expected, "{limit} {clients}");
        }
    }
}
