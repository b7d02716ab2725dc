//! A short run of the fuzz targets.

#![expect(clippy::expect_used, reason = "a test")]

#[path = "../../../../fuzz/src/redis_conf.rs"]
mod redis_conf;
#[path = "../../../../fuzz/src/script.rs"]
mod script;

use proptest::{collection::vec, prelude::*};

/// Nearly a redis.conf: names of settings with values that may fit.
fn conf_line() -> impl Strategy<Value = String> {
    const VALUES: &[&str] = &[
        "yes",
        "no",
        "0",
        "1",
        "-1",
        "100mb",
        "5%",
        "\"\"",
        "\"a b\"",
        "'x",
        "900 1",
        "normal 0 0 0",
        "always",
        "KEA",
        "\\x00",
    ];
    let names: Vec<&str> = commands::config::SETTINGS.iter().map(|setting| setting.name).collect();
    let values = vec(prop::sample::select(VALUES.to_vec()), 0..3);
    (prop::sample::select(names), values).prop_map(|(name, values)| format!("{name} {}", values.join(" ")))
}

/// Nearly a script: pieces of Lua one after the other.
fn lua() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "return ",
        "local a = ",
        "a",
        "KEYS[1]",
        "ARGV",
        "redis.call(",
        "redis.pcall(",
        "'SET'",
        "'GET'",
        "'k'",
        ",",
        ")",
        "(",
        "{",
        "}",
        "1",
        "0/0",
        "'x'",
        "\n",
        " ",
        "if a then ",
        " end ",
        "while true do ",
        "for i = 1, 3 do ",
        "function f() ",
        "f()",
        "pcall(",
        "error(",
        "string.rep('x', 9)",
        "('aab'):find('a-b')",
        "cjson.encode(",
        "cmsgpack.pack(",
        "struct.pack('i',",
        "bit.bor(1,",
        "#",
        "..",
        "==",
        "_G",
        "getmetatable(",
        "setmetatable(",
        "coroutine.wrap(",
        "table.concat(",
        "unpack(",
    ];
    vec(prop::sample::select(PIECES.to_vec()), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn redis_conf_files(lines in vec(conf_line(), 0..8)) {
        redis_conf::file(lines.join("\n").as_bytes());
    }

    #[test]
    fn lua_scripts(source in lua()) {
        script::source(source.as_bytes());
    }
}
