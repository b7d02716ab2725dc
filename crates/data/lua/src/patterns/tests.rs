//! Beside Lua's own functions, which are the judge: the same answers, and the same errors.

use super::*;
use crate::machine::message_of;

/// Lua with its own `string`, and a table with what is here.
fn both(look: Look) -> (Lua, Table, Table) {
    let lua = Lua::new();
    let host = lua.create_table().unwrap();
    let own = lua.create_table().unwrap();
    put(&lua, &host, &own, look).unwrap();
    let theirs = lua.globals().get("string").unwrap();
    (lua, theirs, own)
}

fn unbounded() -> Look {
    Rc::new(|_| Ok(()))
}

fn show(outcome: mlua::Result<MultiValue>) -> String {
    let one = |value: Value| match value {
        Value::String(text) => format!("\"{}\"", text.as_bytes().escape_ascii()),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        other => library::type_name(&other).to_owned(),
    };
    match outcome {
        Ok(values) => values.into_iter().map(one).collect::<Vec<_>>().join(" "),
        Err(error) => format!("error: {}", message_of(&error)),
    }
}

/// Patterns with the texts that they are tried on.
const TABLE: &[(&str, &[&str])] = &[
    ("", &["", "abc"]),
    ("abc", &["xabcx", "ab"]),
    ("^a", &["aaa", "ba"]),
    ("a^", &["a^", "a"]),
    ("a$", &["ba", "ab"]),
    ("a$b", &["a$b", "ab"]),
    ("^", &["x"]),
    ("^$", &["", "x"]),
    ("$", &["abc"]),
    ("a*", &["aaab", "b"]),
    ("a+", &["aaab", "b"]),
    ("a-", &["aaab"]),
    ("a-b", &["aaab", "aaac"]),
    ("^a-$", &["aaa", "aab"]),
    ("a?b", &["ab", "b", "aab"]),
    (".-x", &["abcx", "abc"]),
    ("(a*)(b*)", &["aabbb"]),
    ("((a)(b))", &["xab"]),
    ("()a()", &["xxa"]),
    ("(a)%1", &["aa", "ab"]),
    ("(.)(.)%2%1", &["xabba"]),
    ("()%1", &["aa"]),
    ("(%1)", &["a"]),
    ("%1", &["a"]),
    ("%0", &["a"]),
    ("(a", &["a", "b"]),
    ("a)", &["a"]),
    ("(()", &["a"]),
    ("[abc]+", &["xxcab"]),
    ("[^abc]+", &["abxyc"]),
    ("[]]", &["a]"]),
    ("[^]]", &["]a"]),
    ("[]", &["a"]),
    ("[^]", &["a"]),
    ("[a-c]*", &["abcd"]),
    ("[c-a]", &["b", "c"]),
    ("[a-]", &["-", "b"]),
    ("[-a]", &["-"]),
    ("[%a_][%w_]*", &["9 name_1 x"]),
    ("[a-%z]", &["a", "z", "%", "\0"]),
    ("[%a-z]", &["-", "B", "z", "9"]),
    ("[%]]", &["]"]),
    ("[a%]", &["a"]),
    ("[%", &["a"]),
    ("[a", &["a", ""]),
    ("x[", &["a", "x"]),
    ("%", &["%"]),
    ("a%", &["a", "b"]),
    ("%%", &["100%"]),
    ("%.", &["a.b"]),
    ("%d+%.?%d*", &["pi 3.14", "3"]),
    ("%s+$", &["text  \t\u{b}"]),
    ("%S", &["  x"]),
    ("%p", &["a!"]),
    ("%c", &["a\n", "\u{7f}"]),
    ("%x+", &["xyzAf09g"]),
    ("%u%l%U%L%A%D%W%P%C%X", &["Ab1A1a!a~~", "AbcDef"]),
    ("%z", &["a\0b", "ab"]),
    ("%Z+", &["a\0b"]),
    ("a\0b", &["a\0b", "axb"]),
    ("a*\0b", &["aa\0b", "x"]),
    ("[\0]", &["a"]),
    ("%g", &["g"]),
    ("%b()", &["x(a(b)c)d", "(", "((a)"]),
    ("%b((", &["((", "(a("]),
    ("%bxx", &["axbxc"]),
    ("%b", &["a"]),
    ("%bx", &["a"]),
    ("%f[%w]%w+", &["  word"]),
    ("%f[%z]", &["abc", ""]),
    ("%f[%W]", &["abc"]),
    ("%fa", &["a"]),
    ("%f", &["a"]),
    ("*", &["*"]),
    ("+a", &["+a"]),
    ("(*)", &["*"]),
    ("a**", &["a*"]),
    ("^*", &["*"]),
    ("(a-)(b?)$", &["aab", "aa"]),
    ("\u{e9}+", &["caf\u{e9}\u{e9}"]),
    ("(((((((((((((((((((((((((((((((((a)))))))))))))))))))))))))))))))))", &["a"]),
    ("((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))", &["a"]),
];

const REPLACEMENTS: &[&str] = &["", "x", "%0", "<%1>", "%2%1", "%%", "%", "a%", "%z", "[%0%0]", "%9"];

/// Asks both with a text and a pattern.
struct Pair {
    calls: Vec<(&'static str, Function, Function)>,
    gmatch: (Function, Function),
    lua: Lua,
}

impl Pair {
    fn new() -> Self {
        let (lua, theirs, own) = both(unbounded());
        let calls = ["find", "match", "gsub"];
        let calls = calls.map(|name| (name, theirs.get(name).unwrap(), own.get(name).unwrap())).into_iter().collect();
        let gather = "local gmatch = ... return function(...) local all = {} for a, b, c in gmatch(...) do
                          all[#all + 1] = tostring(a) .. ' ' .. tostring(b) .. ' ' .. tostring(c) end
                      return table.concat(all, ';') end";
        let gather = |of: &Table| lua.load(gather).call(of.get::<Function>("gmatch").unwrap()).unwrap();
        Self { calls, gmatch: (gather(&theirs), gather(&own)), lua }
    }

    fn compare(&self, text: &[u8], pattern: &[u8], inits: &[i64], replacements: &[&[u8]]) {
        let string = |bytes: &[u8]| Value::String(self.lua.create_string(bytes).unwrap());
        let check = |name: &str, theirs: &Function, own: &Function, rest: &[Value]| {
            let mut words = vec![string(text), string(pattern)];
            words.extend_from_slice(rest);
            let words = MultiValue::from_iter(words);
            let expected = show(theirs.call(words.clone()));
            let found = show(own.call(words));
            let shown = (text.escape_ascii().to_string(), pattern.escape_ascii().to_string());
            // A place in the source of the test is none in what is here.
            let expected = expected.replace("[string \"?\"]:0: ", "");
            assert_eq!(found, expected, "{name} of {shown:?} with {rest:?}");
        };
        for (name, theirs, own) in &self.calls {
            if *name == "gsub" {
                for with in replacements {
                    check(name, theirs, own, &[string(with)]);
                    check(name, theirs, own, &[string(with), Value::Integer(2)]);
                }
                continue;
            }
            for init in inits {
                check(name, theirs, own, &[Value::Integer(*init)]);
            }
            check(name, theirs, own, &[Value::Integer(1), Value::Boolean(true)]);
        }
        // Those of the iterator's errors name the line of whoever asks it.
        let words = || MultiValue::from_iter([string(text), string(pattern)]);
        let (expected, found) = (self.gmatch.0.call(words()), self.gmatch.1.call(words()));
        assert_eq!(show(found), show(expected), "gmatch of {} in {}", pattern.escape_ascii(), text.escape_ascii());
    }
}

#[test]
fn patterns_match_as_luas_own() {
    let pair = Pair::new();
    let replacements: Vec<_> = REPLACEMENTS.iter().map(|text| text.as_bytes()).collect();
    for (pattern, texts) in TABLE {
        for text in *texts {
            pair.compare(text.as_bytes(), pattern.as_bytes(), &[1, 0, 2, -1, -2, 5, -100, 100], &replacements);
        }
    }
}

#[test]
fn random_patterns_match_as_luas_own() {
    const PIECES: &[&str] = &[
        "a", "b", "x", ".", "%a", "%d", "%W", "%s", "%%", "%z", "[ab]", "[^a]", "[a-c]", "[%d-]", "[]b]", "*", "+",
        "-", "?", "(", ")", "()", "%1", "%2", "%b()", "%bab", "%f[%w]", "%f[^b]", "^", "$", "[", "]", "%", "1", "%0",
        "\0",
    ];
    const SIGNS: &[u8] = b"aaabbbxc1( )-]\0\n";
    let pair = Pair::new();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) as usize % bound
    };
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3_000);
    for _ in 0..rounds {
        let pattern: String = (0..1 + below(6)).map(|_| PIECES[below(PIECES.len())]).collect();
        let text: Vec<u8> = (0..below(10)).map(|_| SIGNS[below(SIGNS.len())]).collect();
        let with = REPLACEMENTS[below(REPLACEMENTS.len())].as_bytes();
        let init = below(14) as i64 - 4;
        pair.compare(&text, pattern.as_bytes(), &[1, init], &[with]);
    }
}

/// Errors of arguments and of what replaces, with the place that called, and calls of scripts' own functions.
#[test]
fn scripts_get_the_same() {
    let (lua, theirs, own) = both(unbounded());
    let methods = lua.create_table().unwrap();
    lua.set_type_metatable::<LuaString>(Some(methods.clone()));
    let run = |of: &Table, script: &str| {
        methods.set("__index", of.clone()).unwrap();
        let script = format!("local string, S = ...\n{script}");
        show(lua.load(script).set_name("@script").call((of.clone(), "a1b22")))
    };
    for script in [
        "return string.find()",
        "string.find()",
        "local a = string.find('x') return a",
        "local f = string.find local a = f('x') return a",
        "local a = string.find({}, 'x') return a",
        "local a = string.find('x', nil) return a",
        "local a = S:find() return a",
        "local a = S:find('x', {}) return a",
        "local a = S:find('1', '2') return a",
        "local a = S.find() return a",
        "local a = string.match('x', 'x', 'y') return a",
        "local a = string.gsub('x', 'x') return a",
        "local a = string.gsub('x', 'x', true) return a",
        "local a = S:gsub('x', nil) return a",
        "local a = S:gsub('.', 'y', 'z') return a",
        "local a = string.gmatch('x') return a",
        "local a = S:gmatch() return a",
        "local a = S:gsub('%d', '%2') return a",
        "local a = S:gsub('(', 'x') return a",
        "local a = S:gsub('%d', function() return {} end) return a",
        "local a = S:gsub('%d', function() return true end) return a",
        "for a in S:gmatch('(') do end",
        "for a in S:gmatch('[') do end",
        "local n = 0 for a in S:gmatch('%d+') do n = n + a end return n",
        "local t = {} for a, b in S:gmatch('(%a)(%d)') do t[#t + 1] = a .. b end return table.concat(t, ',')",
        "local i = S:gmatch('.') return i(), i(), i(), i(), i(), i()",
        "return S:gsub('%d', { ['1'] = 'one', ['2'] = false })",
        "return S:gsub('(%a)(%d)', { a = 5, b = 1.5 })",
        "return S:gsub('()%d', { [2] = 'two' })",
        "return S:gsub('%d', setmetatable({}, { __index = function(_, key) return '<' .. key .. '>' end }))",
        "return S:gsub('%w', function(a) return a .. a end, 3)",
        "return S:gsub('(%a)(%d)', function(a, b) return b .. a end)",
        "return S:gsub('(%a)()', function(a, b) return b end)",
        "return S:gsub('%d', function() end)",
        "return S:gsub('%d', function() return false end)",
        "return S:gsub('%d', 7)",
        "return (12345):gsub('3', 'x')",
        "return string.gsub(12345, 3, 'x')",
        "return string.find(12.5, '.5', 1, true)",
        "return S:gsub('', '-')",
        "return S:gsub('', '-', 2.9)",
        "return S:gsub('.', 'x', -1)",
        "return S:gsub('.', 'x', 1e300)",
        "return S:find('b', 1e300)",
        "return S:find('b', -1e300)",
        "return S:find('b', 0/0)",
        "return S:find('b', '2')",
        "return S:find('b', 2.9)",
        "return S:find('', 10)",
        "return S:find('', 6)",
        "return S:find('1', nil, nil)",
        "return S:find('.', 1, 0)",
        "return S:find('.', 1, false)",
        "return string.gfind == string.gmatch",
        "return (S:gsub('%d', function(d) return (d:gsub('1', function() return 'deep' end)) end))",
    ] {
        assert_eq!(run(&own, script), run(&theirs, script), "{script}");
    }
}

/// What takes for ever is asked about, and ends when it is to end.
#[test]
fn a_search_can_be_ended() {
    let asked = Rc::new(Cell::new(0));
    let counted = Rc::clone(&asked);
    let look: Look = Rc::new(move |_| {
        counted.set(counted.get() + 1);
        if counted.get() < 3 { Ok(()) } else { Err(mlua::Error::runtime("ended")) }
    });
    let (lua, _, own) = both(look);
    for script in [
        "return S.find(('a'):rep(40), ('a-'):rep(40) .. 'b')",
        "return S.match(('a'):rep(4000), '(.-)(.-)(.-)(.-)(.-)b')",
        "return S.gsub(('a'):rep(4000), ('a*'):rep(20) .. 'b', '')",
        "for _ in S.gmatch(('('):rep(100000), '%b()') do end",
        "for _ = 1, 1000000 do S.find(('a'):rep(1000), '.-b') end",
        "return S.find(('ab'):rep(100000), '(' .. ('.'):rep(50000) .. ')%1x')",
        "return S.find(('a'):rep(10000), '[' .. ('x'):rep(10000) .. ']')",
    ] {
        asked.set(0);
        let outcome = lua.load(format!("local S = ... {script}")).call::<MultiValue>(own.clone());
        assert!(show(outcome).ends_with(": ended"), "{script}");
    }
}

/// Patterns that would fill the machine's stack are refused, or matched without it.
#[test]
fn long_patterns_need_no_stack() {
    let (lua, _, own) = both(unbounded());
    let run = |script: &str| show(lua.load(format!("local S = ... {script}")).call(own.clone()));
    assert_eq!(run("return S.find(('a'):rep(100000), ('a?'):rep(100000))"), "1 100000");
    assert!(run("return S.find(('a'):rep(300000), ('a?'):rep(300000))").contains("pattern too complex"));
    let nested = "local function f(d) return (S.gsub('x', 'x', function() return f(d + 1) end)) end return f(0)";
    assert!(run(nested).contains("stack overflow"), "{}", run(nested));
    let many =
        "local all = {} for i = 1, 50000 do all[i] = S.gmatch('ab', '.') all[i]() end return all[1](), all[50000]()";
    assert_eq!(run(many), "\"b\" \"b\"");
}
