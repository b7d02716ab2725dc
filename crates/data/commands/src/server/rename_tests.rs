//! Commands that `rename-command` gave other names, as clients and scripts see them.

use crate::{
    config::file,
    groups::{self, testing::Shard},
};

#[test]
fn clients_and_scripts_use_the_new_names_and_the_log_has_the_own_ones() {
    let mut shard = Shard::new();
    let text = "rename-command FLUSHALL \"\"\nrename-command set put\nrename-command config \"c-1\"\n";
    let problems = file::read(text, &mut shard.0.shared.settings, groups::own_name, &mut |_, _| Ok(()));
    assert_eq!(problems, []);
    let client = shard.client();
    for (command, expected) in [
        ("put a 1", "+OK "),
        ("SET a 2", "-ERR unknown command 'SET', with args beginning with: 'a' '2' "),
        ("FlushAll", "-ERR unknown command 'FlushAll', with args beginning with: "),
        ("C-1 GET port", "*2 $4 port $4 6379 "),
        ("CONFIG GET port", "-ERR unknown command 'CONFIG', with args beginning with: 'GET' 'port' "),
        ("EVAL \"return redis.call('PUT', 'b', '2')\" 0", "+OK "),
        ("GET b", "$1 2 "),
        ("MULTI", "+OK "),
        ("Put c 3", "+QUEUED "),
        ("GET c", "+QUEUED "),
        ("EXEC", "*2 +OK $1 3 "),
        ("MULTI", "+OK "),
        ("set c 4", "-ERR unknown command 'set', with args beginning with: 'c' '4' "),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors. "),
    ] {
        assert_eq!(shard.ask(client, command).trim_end(), expected.trim_end(), "{command}");
    }
    assert!(
        shard.ask(client, "EVAL \"return redis.call('set', 'b', '2')\" 0").starts_with("-ERR Unknown Redis command")
    );
    let log = shard.log();
    assert!(log.iter().any(|command| command.to_uppercase().starts_with("SET A 1")), "{log:?}");
    assert!(log.iter().all(|command| !command.to_uppercase().starts_with("PUT")), "{log:?}");
}

#[test]
fn a_name_that_cannot_be_given_is_an_error_of_the_file() {
    let mut shard = Shard::new();
    for (line, expected) in [
        ("rename-command nothing x", "No such command in rename-command"),
        ("rename-command get set", "Target command name already exists"),
        ("rename-command get", "takes a command and its new name"),
    ] {
        let problems = file::read(line, &mut shard.0.shared.settings, groups::own_name, &mut |_, _| Ok(()));
        assert!(problems[0].reason.contains(expected) && !problems[0].is_note, "{problems:?}");
    }
}
