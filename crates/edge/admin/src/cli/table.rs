//! The commands: one table for finding them, for who may give them, and for the help.

use haproxycfg::model::CliLevel;

use super::{
    acme, admin, certificate_lists, certificates, cookies, events, help,
    line::Line,
    patterns, peers, plugins,
    reply::Reply,
    resolvers, routes, server_state,
    session::{self, Context, Session},
    sessions, show, tables, threads, tls_keys, trusted, variable,
};

/// A command.
pub struct Command {
    /// The words that it begins with.
    pub words: &'static [&'static str],
    /// How it is written; nothing for those that the help does not list.
    pub usage: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Who may give it.
    pub level: CliLevel,
    pub(super) run: Run,
}

pub(super) type Runner = fn(&mut Session, &Context<'_>, &Line) -> Reply;

/// What a command does.
pub(super) enum Run {
    /// This.
    With(Runner),
    /// Nothing, for this reason.
    Absent(&'static str),
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Command").field("words", &self.words).finish_non_exhaustive()
    }
}

impl Command {
    /// Whether it does anything.
    #[must_use]
    pub fn supported(&self) -> bool {
        matches!(self.run, Run::With(_))
    }

    /// Why it does nothing, if that is for a reason that lasts.
    #[must_use]
    pub fn absent(&self) -> Option<&'static str> {
        match self.run {
            Run::Absent(reason) => Some(reason),
            Run::With(_) => None,
        }
    }
}

const fn with(
    words: &'static [&'static str],
    level: CliLevel,
    usage: &'static str,
    doc: &'static str,
    run: Runner,
) -> Command {
    Command { words, usage, doc, level, run: Run::With(run) }
}

const fn absent(words: &'static [&'static str], reason: &'static str) -> Command {
    Command { words, usage: "", doc: "", level: CliLevel::User, run: Run::Absent(reason) }
}

const USER: CliLevel = CliLevel::User;
const OPERATOR: CliLevel = CliLevel::Operator;
const ADMIN: CliLevel = CliLevel::Admin;

/// Every command of HAProxy 2.6, with the level that it asks for, but for those that change maps, ACLs, tables, OCSP responses and
/// keys of tickets or show these keys: HAProxy leaves them to everybody, although its manual says of the level `user` that it
/// allows no change.
pub const COMMANDS: &[Command] = &[
    with(&["acme", "ps"], USER, "acme ps", "the same as acme status", acme::status),
    with(
        &["acme", "renew"],
        ADMIN,
        "acme renew <certificate>",
        "ask the authority of an 'acme' section for a certificate now",
        acme::renew,
    ),
    with(
        &["acme", "status"],
        USER,
        "acme status",
        "tell how the certificates of 'acme' sections are doing",
        acme::status,
    ),
    with(&["_getsocks"], USER, "", "", |_, _, _| Reply::SendSockets),
    with(
        &["add", "server"],
        ADMIN,
        "add server <bk>/<srv> <address> [opts]",
        "create a server, in maintenance",
        admin::add_server,
    ),
    with(
        &["clear", "counters"],
        OPERATOR,
        "clear counters [all]",
        "forget the greatest values, or all counts",
        admin::clear_counters,
    ),
    with(&["del", "server"], ADMIN, "del server <bk>/<srv>", "take a server away", admin::del_server),
    with(
        &["clear", "table"],
        OPERATOR,
        "clear table <table> [<filter>]*",
        "remove entries of a table (filter: data/key)",
        tables::clear,
    ),
    with(
        &["disable", "agent"],
        ADMIN,
        "disable agent <bk>/<srv>",
        "stop agent checks of a server",
        admin::disable_agent,
    ),
    with(
        &["disable", "frontend"],
        ADMIN,
        "disable frontend <frontend>",
        "accept nothing for the time being",
        admin::disable_frontend,
    ),
    with(&["disable", "health"], ADMIN, "disable health <bk>/<srv>", "stop checks of a server", admin::disable_health),
    with(
        &["disable", "server"],
        ADMIN,
        "disable server <bk>/<srv>",
        "put a server into maintenance (better: set server)",
        admin::disable_server,
    ),
    with(&["enable", "agent"], ADMIN, "enable agent <bk>/<srv>", "start agent checks of a server", admin::enable_agent),
    with(&["enable", "frontend"], ADMIN, "enable frontend <frontend>", "accept again", admin::enable_frontend),
    with(&["enable", "health"], ADMIN, "enable health <bk>/<srv>", "start checks of a server", admin::enable_health),
    with(
        &["enable", "server"],
        ADMIN,
        "enable server <bk>/<srv>",
        "take a server out of maintenance (better: set server)",
        admin::enable_server,
    ),
    with(&["experimental-mode"], ADMIN, "", "", session::mode),
    with(&["expert-mode"], ADMIN, "", "", session::mode),
    with(&["get", "weight"], USER, "get weight <bk>/<srv>", "tell the weight of a server", admin::get_weight),
    with(&["get", "var"], OPERATOR, "get var <name>", "tell a variable of the process", variable::tell),
    with(&["help"], USER, "", "", help::help),
    with(&["operator"], OPERATOR, "operator", "go down to the level operator", session::lower),
    with(&["prompt"], USER, "", "", session::prompt),
    with(&["quit"], USER, "", "", |_, _, _| Reply::Quit),
    with(
        &["set", "maxconn", "frontend"],
        ADMIN,
        "set maxconn frontend <frontend> <value>",
        "change the connections that a frontend takes",
        admin::set_maxconn_frontend,
    ),
    with(
        &["set", "maxconn", "global"],
        ADMIN,
        "set maxconn global <value>",
        "change the connections that the process takes",
        admin::set_maxconn_global,
    ),
    with(
        &["set", "maxconn", "server"],
        ADMIN,
        "set maxconn server <bk>/<srv> <value>",
        "change the sessions that a server gets",
        admin::set_maxconn_server,
    ),
    with(
        &["set", "rate-limit"],
        ADMIN,
        "set rate-limit <setting> <value>",
        "change a limit on rates",
        admin::set_rate_limit,
    ),
    with(
        &["set", "server"],
        ADMIN,
        "set server <bk>/<srv> [opts]",
        "change the state, weight, health or address of a server",
        admin::set_server,
    ),
    with(
        &["set", "severity-output"],
        USER,
        "set severity-output [none|number|string]",
        "say how important each answer is",
        session::set_severity,
    ),
    with(
        &["set", "table"],
        OPERATOR,
        "set table <table> key <k> [data.* <v>]*",
        "make an entry of a table, or change it",
        tables::set,
    ),
    with(
        &["set", "timeout"],
        USER,
        "set timeout cli <delay>",
        "change the time to the next command",
        session::set_timeout,
    ),
    with(
        &["set", "var"],
        OPERATOR,
        "set var <name> [fmt|expr] {<fmt>|<expr>}",
        "set a variable of the process (in experimental mode)",
        variable::set,
    ),
    with(
        &["set", "weight"],
        ADMIN,
        "set weight <bk>/<srv> <weight>",
        "change the weight of a server (better: set server)",
        admin::set_weight,
    ),
    with(&["show", "activity"], USER, "show activity", "what the threads do", threads::activity),
    with(&["show", "backend"], USER, "show backend", "list the backends", show::backends),
    with(&["show", "cache"], ADMIN, "show cache", "list what 'cache' sections have stored", show::caches),
    with(&["show", "cli", "level"], USER, "show cli level", "tell your level", session::show_level),
    with(&["show", "cli", "sockets"], USER, "show cli sockets", "list the stats sockets", show::sockets),
    with(&["show", "env"], OPERATOR, "show env [var]", "list environment variables, or tell one", show::environment),
    with(
        &["show", "errors"],
        OPERATOR,
        "show errors [<px>] [request|response]",
        "show the last invalid messages",
        show::errors,
    ),
    with(
        &["show", "files"],
        USER,
        "show files [<backend>]",
        "tell about the files that backends with 'root' or 'alias' keep open",
        show::files,
    ),
    with(&["show", "info"], USER, "show info [desc|json|typed|float]*", "tell about the process", show::info),
    with(&["show", "plugins"], USER, "show plugins", "list the plugins and the rules that use them", plugins::show),
    with(&["show", "pools"], USER, "show pools", "tell about memory", show::pools),
    with(
        &["show", "resolvers"],
        USER,
        "show resolvers [id]",
        "tell about the name servers of 'resolvers' sections",
        resolvers::show,
    ),
    with(
        &["show", "routes"],
        USER,
        "show routes [<px>]",
        "tell where requests come in and who answers them",
        routes::show,
    ),
    with(&["show", "schema", "json"], USER, "show schema json", "tell the schema of the JSON forms", show::schema),
    with(
        &["show", "servers", "conn"],
        USER,
        "show servers conn [<backend>]",
        "list the connections of servers",
        server_state::connections,
    ),
    with(
        &["show", "servers", "state"],
        USER,
        "show servers state [<backend>]",
        "list what changes of servers at run time",
        server_state::states,
    ),
    with(
        &["show", "sess"],
        OPERATOR,
        "show sess [id|all|idle]",
        "list the sessions with a request, show one, or list the others",
        sessions::show,
    ),
    with(
        &["show", "startup-logs"],
        OPERATOR,
        "show startup-logs",
        "repeat what was said at the start",
        show::startup_logs,
    ),
    with(
        &["show", "stat"],
        USER,
        "show stat [desc|json|no-maint|typed|up]*",
        "tell about frontends, backends and servers",
        show::statistics,
    ),
    with(
        &["show", "peers"],
        USER,
        "show peers [dict|-] [section]",
        "tell about the peers of all sections or of one",
        peers::show,
    ),
    with(
        &["show", "table"],
        USER,
        "show table <table> [<filter>]*",
        "tell about tables, or list the entries of one (filter: data/key)",
        tables::show,
    ),
    with(&["show", "version"], USER, "show version", "tell the version", show::version),
    with(
        &["shutdown", "frontend"],
        ADMIN,
        "shutdown frontend <frontend>",
        "stop a frontend for good",
        admin::shutdown_frontend,
    ),
    with(&["shutdown", "session"], ADMIN, "shutdown session <id>", "end a session", sessions::shut),
    with(
        &["shutdown", "sessions", "server"],
        ADMIN,
        "shutdown sessions server <bk>/<srv>",
        "end the sessions of a server",
        admin::shutdown_sessions,
    ),
    with(&["add", "acl"], OPERATOR, "add acl [@<ver>] <acl> <pattern>", "add an entry to an ACL", patterns::add),
    with(
        &["add", "map"],
        OPERATOR,
        "add map [@<ver>] <map> <key> <val>",
        "add an entry to a map (or several, in a payload)",
        patterns::add,
    ),
    with(&["clear", "acl"], OPERATOR, "clear acl [@<ver>] <acl>", "delete all entries of an ACL", patterns::clear),
    with(&["clear", "map"], OPERATOR, "clear map [@<ver>] <map>", "delete all entries of a map", patterns::clear),
    with(
        &["commit", "acl"],
        OPERATOR,
        "commit acl @<ver> <acl>",
        "put a prepared version of an ACL in place",
        patterns::commit,
    ),
    with(
        &["commit", "map"],
        OPERATOR,
        "commit map @<ver> <map>",
        "put a prepared version of a map in place",
        patterns::commit,
    ),
    with(&["del", "acl"], OPERATOR, "del acl <acl> [<key>|#<ref>]", "delete entries of an ACL", patterns::delete),
    with(&["del", "map"], OPERATOR, "del map <map> [<key>|#<ref>]", "delete entries of a map", patterns::delete),
    with(&["get", "acl"], USER, "get acl <acl> <value>", "tell what a sample matches in an ACL", patterns::get),
    with(&["get", "map"], USER, "get map <map> <value>", "tell what a sample matches in a map", patterns::get),
    with(&["prepare", "acl"], OPERATOR, "prepare acl <acl>", "begin another version of an ACL", patterns::prepare),
    with(&["prepare", "map"], OPERATOR, "prepare map <map>", "begin another version of a map", patterns::prepare),
    with(
        &["set", "map"],
        OPERATOR,
        "set map <map> [<key>|#<ref>] <value>",
        "change the value of entries of a map",
        patterns::set,
    ),
    with(
        &["show", "acl"],
        USER,
        "show acl [@<ver>] [<acl>]",
        "list the ACLs' patterns, or those of one",
        patterns::show,
    ),
    with(&["show", "map"], USER, "show map [@<ver>] [<map>]", "list the maps, or the entries of one", patterns::show),
    with(&["show", "events"], USER, "show events [<sink>] [-w] [-n]", "show event sink state", events::show),
    with(&["user"], USER, "user", "go down to the level user", session::lower),
    with(
        &["disable", "dynamic-cookie", "backend"],
        ADMIN,
        "disable dynamic-cookie backend <bk>",
        "make no cookies of servers' addresses",
        cookies::disable,
    ),
    with(
        &["enable", "dynamic-cookie", "backend"],
        ADMIN,
        "enable dynamic-cookie backend <bk>",
        "make cookies of servers' addresses",
        cookies::enable,
    ),
    with(
        &["set", "dynamic-cookie-key", "backend"],
        ADMIN,
        "set dynamic-cookie-key backend <bk> <k>",
        "change the secret of cookies that are made of addresses",
        cookies::set_key,
    ),
    with(
        &["set", "profiling"],
        ADMIN,
        "set profiling <what> {auto|on|off}",
        "profiles of tasks and memory: there are none",
        threads::set_profiling,
    ),
    with(&["show", "fd"], OPERATOR, "show fd [num]", "list what is open, or tell of one number", show::descriptors),
    with(&["show", "libs"], OPERATOR, "show libs", "list the program's files in memory", show::libraries),
    with(
        &["show", "profiling"],
        ADMIN,
        "show profiling [<what>|<#lines>|byaddr]*",
        "what is profiled: nothing",
        threads::show_profiling,
    ),
    with(&["show", "tasks"], USER, "show tasks", "tell how many tasks wait to run", threads::tasks),
    with(&["show", "threads"], USER, "show threads", "tell what each worker thread has to do", threads::threads),
    with(
        &["show", "trace"],
        USER,
        "show trace [<module>]",
        "list the sources of traces: there are none",
        threads::show_trace,
    ),
    with(&["trace"], OPERATOR, "trace [<module>|0] [cmd [args...]]", "trace a source: there are none", threads::trace),
    with(
        &["abort", "ssl", "cert"],
        ADMIN,
        "abort ssl cert <certfile>",
        "forget what a certificate was to become",
        certificates::abort,
    ),
    with(
        &["commit", "ssl", "cert"],
        ADMIN,
        "commit ssl cert <certfile>",
        "have listeners and servers use what a certificate is to become",
        certificates::commit,
    ),
    with(
        &["del", "ssl", "cert"],
        ADMIN,
        "del ssl cert <certfile>",
        "take away a certificate that nobody uses",
        certificates::delete,
    ),
    with(
        &["new", "ssl", "cert"],
        ADMIN,
        "new ssl cert <certfile>",
        "make a name for a certificate that is to come",
        certificates::new,
    ),
    with(
        &["set", "ssl", "cert"],
        ADMIN,
        "set ssl cert <certfile> <payload>",
        "say what a certificate is to become: certificate, chain and key as in its file",
        certificates::set,
    ),
    with(
        &["show", "ssl", "cert"],
        OPERATOR,
        "show ssl cert [<certfile>]",
        "list the certificates of listeners and servers, or tell of one; of what it is to become with * before its name",
        certificates::show,
    ),
    with(
        &["add", "ssl", "crt-list"],
        ADMIN,
        "add ssl crt-list <list> <cert> [opts]*",
        "add a certificate to a list or a folder, or a line with options and names as a payload",
        certificate_lists::add,
    ),
    with(
        &["del", "ssl", "crt-list"],
        ADMIN,
        "del ssl crt-list <list> <cert[:line]>",
        "take a line from a list",
        certificate_lists::delete,
    ),
    with(
        &["show", "ssl", "crt-list"],
        ADMIN,
        "show ssl crt-list [-n] [<list>]",
        "list the lists of certificates, or the lines of one",
        certificate_lists::show,
    ),
    with(
        &["abort", "ssl", "ca-file"],
        ADMIN,
        "abort ssl ca-file <file>",
        "forget what a CA file was to hold",
        trusted::abort,
    ),
    with(
        &["commit", "ssl", "ca-file"],
        ADMIN,
        "commit ssl ca-file <file>",
        "have listeners and servers go by what a CA file is to hold",
        trusted::commit,
    ),
    with(
        &["del", "ssl", "ca-file"],
        ADMIN,
        "del ssl ca-file <file>",
        "take away a CA file that nobody uses",
        trusted::delete,
    ),
    with(
        &["new", "ssl", "ca-file"],
        ADMIN,
        "new ssl ca-file <file>",
        "make a name for a CA file that is to come",
        trusted::new,
    ),
    with(
        &["set", "ssl", "ca-file"],
        ADMIN,
        "set ssl ca-file <file> <payload>",
        "say what a CA file is to hold: certificates of authorities",
        trusted::set,
    ),
    with(
        &["show", "ssl", "ca-file"],
        OPERATOR,
        "show ssl ca-file [<file>[:<index>]]",
        "list the CA files, or tell what one holds; what it is to hold with * before its name",
        trusted::show,
    ),
    with(
        &["abort", "ssl", "crl-file"],
        ADMIN,
        "abort ssl crl-file <file>",
        "forget what a CRL file was to hold",
        trusted::abort,
    ),
    with(
        &["commit", "ssl", "crl-file"],
        ADMIN,
        "commit ssl crl-file <file>",
        "have listeners and servers go by what a CRL file is to hold",
        trusted::commit,
    ),
    with(
        &["del", "ssl", "crl-file"],
        ADMIN,
        "del ssl crl-file <file>",
        "take away a CRL file that nobody uses",
        trusted::delete,
    ),
    with(
        &["new", "ssl", "crl-file"],
        ADMIN,
        "new ssl crl-file <file>",
        "make a name for a CRL file that is to come",
        trusted::new,
    ),
    with(
        &["set", "ssl", "crl-file"],
        ADMIN,
        "set ssl crl-file <file> <payload>",
        "say what a CRL file is to hold: lists of what was revoked",
        trusted::set,
    ),
    with(
        &["show", "ssl", "crl-file"],
        OPERATOR,
        "show ssl crl-file [<file>[:<index>]]",
        "list the CRL files, or tell what one holds; what it is to hold with * before its name",
        trusted::show,
    ),
    with(
        &["set", "ssl", "ocsp-response"],
        OPERATOR,
        "set ssl ocsp-response <response>",
        "show an OCSP response (in base64) with its certificate",
        tls_keys::set_response,
    ),
    with(
        &["show", "ssl", "ocsp-response"],
        USER,
        "show ssl ocsp-response [id]",
        "list the certificates that responses are shown with, or tell of one response",
        tls_keys::responses,
    ),
    with(
        &["set", "ssl", "tls-key"],
        OPERATOR,
        "set ssl tls-key [id|file] <key>",
        "put a key of tickets (in base64) in the place of a file's oldest",
        tls_keys::rotate,
    ),
    with(
        &["show", "tls-keys"],
        OPERATOR,
        "show tls-keys [id|*|file]",
        "list the files of keys of tickets, or tell their keys",
        tls_keys::show,
    ),
    with(
        &["show", "ssl", "providers"],
        USER,
        "show ssl providers",
        "tell what does the cryptography",
        tls_keys::providers,
    ),
    absent(&["debug", "dev"], "it changes HAProxy's memory and threads by hand"),
    absent(&["httpclient"], "it tests HAProxy's own HTTP client; use curl"),
];

/// The command that a line gives.
pub(super) fn find(line: &Line) -> Option<&'static Command> {
    let given = |command: &&Command| command.words.iter().enumerate().all(|(index, word)| line.word(index) == *word);
    COMMANDS.iter().filter(given).max_by_key(|command| command.words.len())
}
