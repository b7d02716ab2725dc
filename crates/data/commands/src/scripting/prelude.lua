-- What scripts find around them. Runs once in each machine, with the functions that the host gives; gives back what the host
-- calls to run scripts.
--
-- Lua 5.1 has no tables that cannot be written. Each table that scripts share is therefore an empty one (a stand-in) in front
-- of the real one: reading goes through, writing is an error. What would reach around metatables (rawset, next, table.insert
-- and their kin) knows stand-ins too. Functions in here use locals alone, so that whatever environment a script sets, they
-- are not affected.
local host = ...
local error, type, tostring, tonumber, select, unpack = error, type, tostring, tonumber, select, unpack
local raw_pcall, raw_xpcall, raw_pairs, raw_ipairs, raw_next = pcall, xpcall, pairs, ipairs, next
local raw_rawset, raw_rawget, raw_rawequal = rawset, rawget, rawequal
local raw_getmetatable, raw_setmetatable, raw_getfenv, raw_setfenv = getmetatable, setmetatable, getfenv, setfenv
local raw_collectgarbage, host_loadstring, host_describe, host_line = collectgarbage, host.loadstring, host.describe, host.line
local concat, floor, ceil, outer = table.concat, math.floor, math.ceil, raw_getfenv(0)

local READONLY = 'Attempt to modify a readonly table'
local NONEXISTENT = "Script attempted to access nonexistent global variable '"

-- The real tables, by their stand-ins.
local behind = {}

local function refuse() error(READONLY, 2) end

local function locked(object)
    local stand_in = raw_setmetatable({}, { __index = object, __newindex = refuse, __metatable = false })
    behind[stand_in] = object
    return stand_in
end

-- Errors that are caught -------------------------------------------------------------------------------------------------

-- A script that was stopped must not go on because it catches errors.
local function check_stopped()
    if host.stopped then error(host.stopped, 0) end
end

-- The error that a script raised, if it went through the host on its way.
local function raised(value)
    local _, _, is_own = host_describe(value)
    if is_own then return host.raised end
    return value
end

-- Scripts of old expect the text of an error, not what it is.
local function text_of(value)
    value = raised(value)
    local refused, text = host_describe(value)
    if text then return refused or text end
    if type(value) == 'table' and type(value.err) == 'string' then return value.err end
    return value
end

local function settle(ok, ...)
    if ok then return ok, ... end
    check_stopped()
    return false, text_of((...))
end

local function protected_call(...) return settle(raw_pcall(...)) end

-- The handler runs when the stack is gone: within an error nothing could stop it.
local function settle_with(handler, ok, ...)
    if ok then return ok, ... end
    check_stopped()
    local _, value = raw_pcall(handler, text_of((...)))
    check_stopped()
    return false, value
end

local function protected_call_with(f, handler) return settle_with(handler, raw_pcall(f)) end

local raw_resume = coroutine.resume

local function settle_resumed(ok, ...)
    if ok then return ok, ... end
    check_stopped()
    return false, text_of((...))
end

local function resume(...) return settle_resumed(raw_resume(...)) end

-- Tables -----------------------------------------------------------------------------------------------------------------

-- An error of arguments is the caller's, as if nothing stood between him and the machine.
local function bad_argument(number, name, reason)
    error('bad argument #' .. number .. " to '" .. name .. "' (" .. reason .. ')', 3)
end

-- What is given instead of a table.
local function expected_table(...)
    return 'table expected, got ' .. (select('#', ...) == 0 and 'no value' or type((...)))
end

local function guarded(name, f)
    return function(...)
        local object = ...
        if behind[object] then error(READONLY, 0) end
        local ok, value = raw_pcall(f, ...)
        if ok then return value end
        if type(value) ~= 'string' then error(value, 0) end
        error((value:gsub("'%?'", "'" .. name .. "'")), 2)
    end
end

local function get_metatable(object)
    if behind[object] then return nil end
    return raw_getmetatable(object)
end

local function look_through(...)
    local object, key = ...
    if type(object) ~= 'table' then bad_argument(1, 'next', expected_table(...)) end
    return raw_next(behind[object] or object, key)
end

local function all_pairs(...)
    local object = ...
    if type(object) ~= 'table' then bad_argument(1, 'pairs', expected_table(...)) end
    if behind[object] then return look_through, object, nil end
    return raw_pairs(object)
end

local function raw_get(...)
    local object, key = ...
    if type(object) ~= 'table' then bad_argument(1, 'rawget', expected_table(...)) end
    return raw_rawget(behind[object] or object, key)
end

local raw_insert = table.insert

-- A place far below the first would move elements one by one up to there.
local function insert(...)
    local object, place = ...
    if behind[object] then error(READONLY, 0) end
    if type(object) ~= 'table' then bad_argument(1, 'insert', expected_table(...)) end
    local count = select('#', ...)
    if count == 3 then
        local number = tonumber(place)
        if not number then bad_argument(2, 'insert', 'number expected, got ' .. type(place)) end
        if number < 1 then bad_argument(2, 'insert', 'position out of bounds') end
    elseif count ~= 2 then
        error("wrong number of arguments to 'insert'", 2)
    end
    return raw_insert(...)
end

-- Lua's own reckons in 32 bits how many there are, and writes beyond its stack if they do not suffice. It has room for this many.
local COUNT_MAX, PLACE_MAX = 8000, 2 ^ 29
-- Places are whole numbers of 32 bits; what is beyond that goes round, as far as a number tells all of its digits.
local PLACES, EXACT_MAX = 2 ^ 32, 2 ^ 53

local function place_of(value, number)
    local place = tonumber(value)
    if not place then
        error("bad argument #" .. number .. " to 'unpack' (number expected, got " .. type(value) .. ')', 3)
    end
    place = place < 0 and ceil(place) or floor(place)
    if place > -EXACT_MAX and place < EXACT_MAX then
        place = (place + PLACES / 2) % PLACES - PLACES / 2
    end
    return place
end

local function unpack_few(...)
    local list, first, last = ...
    if type(list) ~= 'table' then bad_argument(1, 'unpack', expected_table(...)) end
    local from, to = 1, #list
    if first ~= nil then from = place_of(first, 2) end
    if last ~= nil then to = place_of(last, 3) end
    if from > to then return end
    if to - from < COUNT_MAX then
        if from > -PLACE_MAX and to < PLACE_MAX then return unpack(list, from, to) end
        if from >= -PLACES / 2 and to < PLACES / 2 then
            local found = {}
            for place = from, to do found[place - from + 1] = raw_rawget(list, place) end
            return unpack(found, 1, to - from + 1)
        end
    end
    error('too many results to unpack', 2)
end

local function copy(library, changes)
    local own = {}
    for name, value in raw_pairs(library) do own[name] = value end
    for name, value in raw_pairs(changes) do own[name] = value end
    return own
end

-- redis ------------------------------------------------------------------------------------------------------------------

local constants = {
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REDIS_VERSION = host.version, REDIS_VERSION_NUM = host.version_number, log = host.log,
}

local redis = copy(constants, {
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    call = host.call, pcall = host.pcall, sha1hex = host.sha1hex, setresp = host.setresp,
    acl_check_cmd = host.acl_check_cmd, set_repl = host.set_repl,
})

local WRONG = { err = 'ERR wrong number or type of arguments' }

function redis.error_reply(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then return { err = WRONG.err } end
    if text:sub(1, 1) == '-' then text = text:sub(2) end
    if not text:find(' ', 1, true) then text = 'ERR ' .. text end
    return { err = (text:gsub('[\r\n]+$', '')) }
end

function redis.status_reply(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then return { err = WRONG.err } end
    return { ok = text }
end

-- There is no debugger to stop for.
if host.evaluates then
    function redis.replicate_commands() return true end
    function redis.breakpoint() return false end
    function redis.debug() end
end

-- Globals ----------------------------------------------------------------------------------------------------------------

-- What scripts see as globals.
local inside = {}

local globals = {
    assert = assert, error = error, getmetatable = get_metatable, ipairs = ipairs, next = look_through, pairs = all_pairs,
    pcall = protected_call, rawequal = rawequal, rawget = raw_get, rawset = guarded('rawset', rawset), select = select,
    setmetatable = guarded('setmetatable', setmetatable), tonumber = tonumber, tostring = tostring, type = type, unpack = unpack_few,
    xpcall = protected_call_with, _VERSION = _VERSION, _G = inside,
    coroutine = locked(copy(coroutine, { resume = resume })),
    math = locked(copy(math, { random = host.random, randomseed = host.randomseed })),
    string = locked(copy(string, host.string)),
    -- Of stand-ins, which have no elements, the others of these move none.
    table = locked(copy(table, { insert = insert })),
    redis = locked(redis), cjson = locked(host.cjson), cmsgpack = locked(host.cmsgpack),
    bit = locked(host.bit), struct = locked(host.struct),
}

function globals.loadstring(...)
    local compiled, reason = host_loadstring(...)
    if compiled then raw_setfenv(compiled, inside) end
    return compiled, reason
end

function globals.load(reader, name)
    local pieces = {}
    while true do
        local piece = reader()
        if piece == nil or piece == '' then break end
        if type(piece) ~= 'string' then return nil, 'reader function must return a string' end
        pieces[#pieces + 1] = piece
    end
    return globals.loadstring(concat(pieces), name or '=(load)')
end

-- The environment of what is not the script's own stays out of reach.
function globals.getfenv(target)
    if target == nil then target = 1 end
    if target == 0 then return inside end
    if type(target) == 'number' then target = target + 1 end
    local environment = raw_getfenv(target)
    if environment == outer then return inside end
    return environment
end

function globals.setfenv(target, environment)
    if target == 0 then error(READONLY, 0) end
    local at = target
    if type(at) == 'number' then at = at + 1 end
    if raw_getfenv(at) == outer then error(READONLY, 0) end
    return raw_setfenv(at, environment)
end

function globals.collectgarbage(what)
    if what == 'count' then return raw_collectgarbage('count') end
    if what == nil or what == 'collect' or what == 'step' then raw_collectgarbage('step') end
    return 0
end

function globals.gcinfo() return raw_collectgarbage('count') end

-- While a library is loaded it can register functions, and little else.
local while_loading = {
    redis = locked(raw_setmetatable(copy(constants, { register_function = host.register_function }), {
        __index = function(_, name) error(NONEXISTENT .. tostring(name) .. "'", 2) end,
    })),
}

local visible = globals

raw_setmetatable(inside, {
    __index = function(_, name)
        local value = visible[name]
        if value == nil then error(NONEXISTENT .. tostring(name) .. "'", 2) end
        return value
    end,
    __newindex = refuse,
})
behind[inside] = globals

-- Scripts that look for the globals' metatable find one that is as little to be written.
local metatable_of_globals = locked({ __index = globals._G })

function globals.getmetatable(object)
    if object == inside then return metatable_of_globals end
    return get_metatable(object)
end

-- Methods of strings must not become a way around the lock.
host.lock_strings(globals.string)

-- Running ----------------------------------------------------------------------------------------------------------------

-- What an error becomes: a table with its text, and where in the script it was raised.
local function failure(value)
    value = raised(value)
    if host.stopped then
        value = { err = host.stopped }
    elseif type(value) ~= 'table' then
        local refused, text, _, counted = host_describe(value)
        value = { err = refused or 'ERR ' .. tostring(text or value), ignore_error_stats_update = counted }
    end
    local err, counted = raw_rawget(value, 'err'), raw_rawget(value, 'ignore_error_stats_update')
    local source, line = host_line()
    return { err = err, source = source, line = line, ignore_error_stats_update = counted }
end

local machine = {}

function machine.bind(script) raw_setfenv(script, inside) end

function machine.evaluate(script, keys, arguments)
    host.stopped, host.raised = nil, nil
    raw_setfenv(script, inside)
    globals.KEYS, globals.ARGV = keys, arguments
    return raw_xpcall(script, failure)
end

function machine.call(callback, keys, arguments)
    host.stopped, host.raised = nil, nil
    return raw_xpcall(function() return callback(keys, arguments) end, failure)
end

function machine.load(library)
    host.stopped, host.raised = nil, nil
    raw_setfenv(library, inside)
    visible = while_loading
    local ok, value = raw_xpcall(library, failure)
    visible = globals
    return ok, value
end

return machine
