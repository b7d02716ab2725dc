-- What scripts find around them. Runs once, with the functions that the host gives; returns the one that runs a script.
local host = ...
local raw_error, raw_type, raw_tostring, raw_setmetatable = error, type, tostring, setmetatable
local raw_pcall, raw_xpcall = pcall, xpcall

local function locked(object)
    return raw_setmetatable({}, {
        __index = object,
        __newindex = function() raw_error('Attempt to modify a readonly table', 2) end,
        __metatable = false,
    })
end

local redis = {
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    REDIS_VERSION = host.version, REDIS_VERSION_NUM = host.version_number,
    sha1hex = host.sha1hex, setresp = host.setresp, log = host.log,
}

-- The host puts `call` and `pcall` there for each script that runs.
host.redis = redis

function redis.error_reply(text)
    if raw_type(text) ~= 'string' then raw_error('wrong number or type of arguments', 2) end
    if text:sub(1, 1) == '-' then text = text:sub(2) elseif not text:find(' ', 1, true) then text = 'ERR ' .. text end
    return { err = text }
end

function redis.status_reply(text)
    if raw_type(text) ~= 'string' then raw_error('wrong number or type of arguments', 2) end
    return { ok = text }
end

-- Effects are what is propagated, always: there is nothing to switch on, and no debugger to stop for.
function redis.replicate_commands() return true end
function redis.breakpoint() return false end
function redis.debug() end
function redis.set_repl(mode)
    if mode ~= redis.REPL_ALL then raw_error('redis.set_repl: only REPL_ALL is there', 2) end
end

-- Scripts of old expect the text of an error, not what it is.
local function text_of(ok, value, ...)
    if ok then return ok, value, ... end
    local failed = host.describe(value)
    if failed then return false, failed.err end
    if raw_type(value) == 'table' and raw_type(value.err) == 'string' then return false, value.err end
    return false, value
end

local function protected_call(...) return text_of(raw_pcall(...)) end

local globals = {
    assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs, pcall = protected_call,
    rawequal = rawequal, rawget = rawget, select = select, setmetatable = setmetatable, tonumber = tonumber,
    tostring = tostring, type = type, unpack = unpack, xpcall = xpcall, rawset = rawset, loadstring = host.loadstring,
    load = load, coroutine = locked(coroutine), math = locked(math), string = locked(string), table = locked(table),
    redis = locked(redis), cjson = locked(host.cjson), cmsgpack = locked(host.cmsgpack),
    bit = locked(host.bit), _VERSION = _VERSION,
}
globals.server = globals.redis

-- Methods of strings must not become a way around the lock.
host.lock_strings(globals.string)

local function environment(keys, arguments)
    local own = { KEYS = keys, ARGV = arguments }
    local inside = {}
    own._G = inside
    return raw_setmetatable(inside, {
        __index = function(_, name)
            local value = own[name]
            if value == nil then value = globals[name] end
            if value == nil then
                raw_error("Script attempted to access nonexistent global variable '" .. raw_tostring(name) .. "'", 2)
            end
            return value
        end,
        __newindex = function() raw_error('Attempt to modify a readonly table', 2) end,
        __metatable = false,
    })
end

local function failure(value)
    local failed = host.describe(value)
    if failed then return failed end
    if raw_type(value) ~= 'table' or value.err == nil then
        value = { err = 'ERR ' .. raw_tostring(value) }
    end
    return { err = value.err, line = host.line() }
end

return function(script, keys, arguments)
    setfenv(script, environment(keys, arguments))
    return raw_xpcall(script, failure)
end
