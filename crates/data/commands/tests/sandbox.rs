//! Scripts that try to get out, to leave something behind, or to take more than they may. Each gets its answer, and the next
//! script finds everything as it was.

#![expect(clippy::unwrap_used, reason = "a test")]

use commands::{Server, SessionId, config::Settings};

const NOW: i64 = 1_700_000_000_000;
/// What a script sees that nobody has tampered with.
const CANARY: &str = "local names = {} for name in pairs(_G) do names[#names + 1] = name end table.sort(names) \
                      return table.concat(names, ' ') .. ' ' .. #string.rep('ab', 3) .. ' ' .. ('x'):upper() .. ' ' .. \
                      type(redis.call) .. ' ' .. tostring(rawget(_G, 'x')) .. ' ' .. tostring(rawget(redis, 'x')) .. ' ' .. \
                      redis.call('PING').ok .. ' ' .. cjson.encode({1}) .. ' ' .. tostring(getfenv(1) == _G)";

struct Shard {
    server: Server,
    session: SessionId,
}

impl Shard {
    fn new() -> Self {
        let mut server = Server::new(Settings::default(), 7, 7, NOW, None, std::rc::Rc::new(|| 0));
        let session = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW);
        Self { server, session }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        resp::encode_command(self.server.input(self.session).unwrap(), words);
        self.server.run(self.session, NOW);
        let reply = std::mem::take(self.server.output(self.session).unwrap().0);
        String::from_utf8_lossy(&reply).into_owned()
    }
}

/// A script, and what its reply begins with, or what it has in it if that begins with `*`.
const ATTEMPTS: &[(&str, &str)] = &[
    // Bytes that look like the machine's code.
    ("return loadstring(string.dump(function() return 1 end))", "$-1"),
    ("local done return load(function() if not done then done = 1 return string.dump(function() end) end end)", "$-1"),
    // What is not there.
    ("return debug.getregistry()", "*nonexistent global variable 'debug'"),
    ("return os.execute('true')", "*nonexistent global variable 'os'"),
    ("return io.open('/etc/passwd')", "*nonexistent global variable 'io'"),
    ("return require('os')", "*nonexistent global variable 'require'"),
    ("return package.loadlib('x', 'y')", "*nonexistent global variable 'package'"),
    ("return dofile('/etc/passwd')", "*nonexistent global variable 'dofile'"),
    ("return loadfile('/etc/passwd')", "*nonexistent global variable 'loadfile'"),
    ("return newproxy(true)", "*nonexistent global variable 'newproxy'"),
    ("return print('x')", "*nonexistent global variable 'print'"),
    ("return getfenv(0).os", "*nonexistent global variable 'os'"),
    ("return getfenv(redis.call).os", "*nonexistent global variable 'os'"),
    ("return getfenv(pairs).io", "*nonexistent global variable 'io'"),
    ("return loadstring('return getfenv(1).os')()", "*nonexistent global variable 'os'"),
    ("return coroutine.wrap(function() return getfenv(0).os end)()", "*nonexistent global variable 'os'"),
    // What is shared.
    ("x = 1", "*Attempt to modify a readonly table"),
    ("_G.x = 1", "*Attempt to modify a readonly table"),
    ("rawset(_G, 'x', 1)", "*Attempt to modify a readonly table"),
    ("setmetatable(_G, {})", "*Attempt to modify a readonly table"),
    ("getmetatable(_G).__index = {}", "*Attempt to modify a readonly table"),
    ("getmetatable(_G).__index.x = 1", "*Attempt to modify a readonly table"),
    ("setfenv(0, {})", "*Attempt to modify a readonly table"),
    ("setfenv(redis.call, {})", "*Attempt to modify a readonly table"),
    ("setfenv(pcall, {})", "*Attempt to modify a readonly table"),
    ("setfenv(1, {}) x = 1", "$-1"),
    ("redis.call = nil", "*Attempt to modify a readonly table"),
    ("redis.x = 1", "*Attempt to modify a readonly table"),
    ("rawset(redis, 'x', 1)", "*Attempt to modify a readonly table"),
    ("for name in pairs(redis) do redis[name] = nil end", "*Attempt to modify a readonly table"),
    ("table.insert(redis, 1)", "*Attempt to modify a readonly table"),
    ("table.insert(redis, 1, 1)", "*Attempt to modify a readonly table"),
    // These find nothing to move there.
    ("return table.remove(math) or table.remove(redis, 1) or table.remove(_G, 0)", "$-1"),
    ("table.sort(string) table.sort(_G) return math.pi", ":3"),
    ("local _, t = pairs(redis) t.x = 1", "*Attempt to modify a readonly table"),
    ("string.rep = nil", "*Attempt to modify a readonly table"),
    ("coroutine.wrap = nil", "*Attempt to modify a readonly table"),
    ("getmetatable('').__index = nil", "*attempt to index"),
    ("getmetatable(redis).__index = nil", "*attempt to index"),
    ("('').x = 1", "*attempt to index"),
    ("coroutine.wrap(function() x = 1 end)()", "*Attempt to modify a readonly table"),
    ("loadstring('x = 1')()", "*Attempt to modify a readonly table"),
    ("KEYS = 1", "*Attempt to modify a readonly table"),
    // Scripts in scripts.
    ("return redis.call('EVAL', 'return 1', 0)", "*not allowed from script"),
    ("return redis.call('FCALL', 'f', 0)", "*not allowed from script"),
    ("return (string.gsub('x', 'x', function() return redis.call('PING').ok end))", "$4\r\nPONG"),
    // What a script raises in a function that the host calls stays what it is.
    ("return select(2, pcall(string.gsub, 'a1', '%d', function() error('no') end))", "$17\r\nuser_script:1: no"),
    ("return select(2, pcall(string.gsub, 'a1', '%d', function() error({err = 'MINE x'}) end))", "$6\r\nMINE x"),
    ("return (('a1'):gsub('%d', function() error({err = 'MINE x'}) end))", "-MINE x"),
    ("return (('a1'):gsub('%d', setmetatable({}, {__index = function() error({err = 'MINE y'}) end})))", "-MINE y"),
    ("return (('a1'):gsub('%d', function() return redis.call('NONE') end))", "-ERR Unknown Redis command"),
    ("local c = coroutine.wrap(function() error({err = 'MINE z'}) end) return ('a'):gsub('a', c)", "-MINE z"),
    // Memory.
    ("return string.rep('x', 1e10)", "*not enough memory"),
    ("return #string.rep('', 1e15)", ":0"),
    ("return ('x'):rep(-1)", "$0"),
    ("local t = {} while true do t[#t + 1] = string.rep('x', 4000000) .. #t end", "*not enough memory"),
    ("local s = 'x' for i = 1, 64 do s = s .. s end", "*not enough memory"),
    ("cjson.encode_sparse_array(true, 0) return pcall(cjson.encode, {[2 ^ 30] = 1})", "$-1"),
    ("cjson.encode_sparse_array(false, 2) return unpack({}, 1, 1e8)", "*too many results to unpack"),
    ("return {unpack({1, 2, 3}, 0, 2147483647)}", "*user_script:1: too many results to unpack"),
    ("return {unpack({1, 2, 3}, -2147483648, 2147483647)}", "*user_script:1: too many results to unpack"),
    ("return {unpack({1, 2, 3}, -1e300, 1e300)}", "*user_script:1: too many results to unpack"),
    ("return {unpack({1, 2, 3}, 4294967296, 6442450943)}", "*user_script:1: too many results to unpack"),
    ("return select('#', unpack({}, -2147483648, -2147483646))", ":3"),
    ("return {unpack({[2147483646] = 'a', [2147483647] = 'b'}, 2147483646, 2147483647)}", "*2\r\n$1\r\na\r\n$1\r\nb"),
    ("return {unpack({1, 2, 3}, 4294967297, 4294967298.5)}", "*2\r\n:1\r\n:2"),
    ("return {unpack({1, 2, 3}, 1.9, 2.9)}", "*2\r\n:1\r\n:2"),
    ("return {unpack({1, 2, 3}, 1e300, 1e300)}", "*user_script:1: too many results to unpack"),
    ("return {unpack({1, 2, 3}, 0 / 0, 2)}", "*user_script:1: too many results to unpack"),
    (
        "return #{unpack({1, 2, 3}, '2', '3')} + select('#', unpack({}, 1, 7000)) + select('#', unpack({}, 3, 1))",
        ":7002",
    ),
    ("local x = unpack(nil) return 1", "*user_script:1: bad argument #1 to 'unpack' (table expected, got nil)"),
    // Errors are where the script made them.
    (
        "table.sort({3, 1, 2, 5, 4, 9, 8, 7}, function() return true end)",
        "*user_script:1: invalid order function for sorting",
    ),
    ("\ntable.sort({2, 1}, 1)", "*user_script:2: bad argument #2 to 'sort' (function expected, got number)"),
    ("table.sort({1, 2, 3}, function() error('mine') end)", "*user_script:1: mine"),
    ("table.remove()", "*user_script:1: bad argument #1 to 'remove' (table expected, got no value)"),
    ("table.insert(nil, 1)", "*user_script:1: bad argument #1 to 'insert' (table expected, got nil)"),
    ("table.insert({}, 'x', 1)", "*user_script:1: bad argument #2 to 'insert' (number expected, got string)"),
    ("table.insert({}, 1, 2, 3)", "*user_script:1: wrong number of arguments to 'insert'"),
    ("for k in pairs(nil) do end", "*user_script:1: bad argument #1 to 'pairs' (table expected, got nil)"),
    ("local x = next(1)", "*user_script:1: bad argument #1 to 'next' (table expected, got number)"),
    ("local x = rawget()", "*user_script:1: bad argument #1 to 'rawget' (table expected, got no value)"),
    ("rawset({}, 1)", "*user_script:1: bad argument #3 to 'rawset' (value expected)"),
    ("setmetatable({}, 1)", "*user_script:1: bad argument #2 to 'setmetatable' (nil or table expected)"),
    ("setmetatable(setmetatable({}, {__metatable = 1}), {})", "*user_script:1: cannot change a protected metatable"),
    ("unpack({}, {})", "*user_script:1: bad argument #2 to 'unpack' (number expected, got table)"),
    // Depth and length.
    ("local function f() return 1 + f() end return f()", "*stack overflow"),
    ("local t = {} for i = 1, 10000 do t = {t} end return cjson.encode(t)", "*excessive nesting"),
    ("return cjson.decode(('['):rep(100000))", "*too many nested data structures"),
    ("return cmsgpack.unpack(('\\145'):rep(100000))", "*too many nested values"),
    ("local t = {} for i = 1, 10000 do t = {t} end return #cmsgpack.pack(t)", ":"),
    ("local t = {} for i = 1, 10000 do t = {t} end return t", "*1"),
    ("return struct.pack('i100', 1)", "*integral size 100 is larger"),
    ("return struct.unpack('c2147483647', 'x')", "*data string too short"),
    ("table.insert({}, -2 ^ 31, 1)", "*position out of bounds"),
    ("return table.concat({}, 'x', 1, 1e9)", "*invalid value"),
    ("return string.format('%9999d', 1)", "*invalid format"),
    // Errors that are odd.
    ("error({})", "-ERR unknown error"),
    (
        "error(setmetatable({}, {__tostring = function() error('x') end, __index = function() error('y') end}))",
        "-ERR unknown",
    ),
    ("error(coroutine.create(function() end))", "-ERR thread"),
    ("return setmetatable({}, {__index = function() error('x') end})", "*0"),
    ("return {xpcall(function() error('x') end, function() error('y') end)}", "*"),
    ("return setmetatable({}, {__gc = function() error('x') end})", "*0"),
];

/// Searches that would take for ever, and what else happens in one instruction of the machine.
const ENDLESS: &[&str] = &[
    "return ('a'):rep(60):find(('a-'):rep(60) .. 'b')",
    "return ('a'):rep(9999):match('(.-)(.-)(.-)(.-)(.-)b')",
    "return ('a'):rep(9999):gsub(('a*'):rep(30) .. 'b', '')",
    "return pcall(string.find, ('a'):rep(60), ('a-'):rep(60) .. 'b')",
    "for _ in ('a'):rep(9999):gmatch(('a-'):rep(60) .. 'b') do end",
];

/// A script that is busy inside of a search is ended as any other.
#[test]
fn searches_are_killed_too() {
    let mut shard = Shard::new();
    let clock = std::rc::Rc::new(std::cell::Cell::new(0_u64));
    let ticks = std::rc::Rc::clone(&clock);
    let stopwatch = move || ticks.replace(ticks.get() + 10_000_000);
    let mut server = Server::new(Settings::default(), 7, 7, NOW, None, std::rc::Rc::new(stopwatch));
    shard.session = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW);
    let other = server.connect("127.0.0.1:3".into(), "127.0.0.1:2".into(), NOW);
    server.set_while_busy(std::rc::Rc::new(move |server: &mut Server| {
        server.input(other).unwrap().extend_from_slice(b"SCRIPT KILL\r\n");
        server.run(other, NOW);
    }));
    shard.server = server;
    for script in ENDLESS {
        let reply = shard.ask(&["EVAL", script, "0"]);
        assert!(reply.starts_with("-ERR Script killed by user"), "{script}: {reply}");
        assert_eq!(shard.ask(&["EVAL", "return ('ab'):find('b')", "0"]), ":2\r\n");
    }
}

/// On as much stack as a store's thread has: what is nested deeply is refused before that is full.
#[test]
fn nothing_gets_out_and_nothing_is_left() {
    const STACK: usize = 8 << 20;
    std::thread::Builder::new().stack_size(STACK).spawn(try_all).unwrap().join().unwrap();
}

fn try_all() {
    let mut shard = Shard::new();
    let untouched = shard.ask(&["EVAL", CANARY, "0"]);
    assert!(untouched.starts_with('$') && untouched.contains("PONG"), "{untouched}");
    let mut wrong = Vec::new();
    for (script, expected) in ATTEMPTS {
        let reply = shard.ask(&["EVAL", script, "0"]);
        let is_right = reply.starts_with(expected)
            || expected.strip_prefix('*').is_some_and(|part| reply.starts_with('-') && reply.contains(part));
        if !is_right {
            wrong.push(format!(
                "{script}\n    wanted {expected:?}\n    got    {:?}",
                reply.get(..200).unwrap_or(&reply)
            ));
        }
        let after = shard.ask(&["EVAL", CANARY, "0"]);
        assert_eq!(after, untouched, "after {script}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
