//! Why names of Redis 7.0 are not in the table of commands.

/// Of a name that nobody has given a reason for; a test finds it.
pub(super) const UNEXPLAINED: &str = "nobody has said why";

/// Names with reasons; one that ends in a blank stands for all that begin so.
const REASONS: &[(&str, &str)] = &[
    ("RESTORE-ASKING", "a mover fills slots on a connection of its own: `CLUSTER CONNECTION MOVER first last epoch`"),
    ("SENTINEL ", "Redis' Sentinel is a program of its own"),
];

/// Why a command is not there.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let is = |known: &str| known == name || known.ends_with(' ') && name.starts_with(known);
    REASONS.iter().find(|(known, _)| is(known)).map(|(_, reason)| *reason)
}
