//! Directives of nginx, and what is written here instead.

/// A directive, what it does, and what does that here.
struct Directive {
    name: &'static str,
    does: &'static str,
    here: &'static str,
}

const fn directive(name: &'static str, does: &'static str, here: &'static str) -> Directive {
    Directive { name, does, here }
}

/// Those that a site is mostly written with.
const DIRECTIVES: &[Directive] = &[
    directive("access_log", "writes a line for each request", "log <target> with log-format"),
    directive("add_header", "adds a field to answers", "http-after-response add-header <name> <value>"),
    directive("alias", "takes the beginning of a path away", "alias <path> <folder>"),
    directive("allow", "lets addresses in", "http-request deny unless { src <network> }"),
    directive(
        "auth_basic",
        "asks for user and password",
        "http-request auth realm <name> unless { http_auth(<userlist>) }",
    ),
    directive("auth_basic_user_file", "has users and passwords", "htpasswd <file> in a 'userlist' section"),
    directive("autoindex", "shows what is in folders", "autoindex on"),
    directive(
        "autoindex_format",
        "says how that is written",
        "clients say it: ?format=json, or Accept: application/json",
    ),
    directive("brotli_static", "sends FILE.br for FILE", "precompressed br"),
    directive("charset", "says the charset of text", "charset <name>"),
    directive("client_body_timeout", "limits the wait for a body", "timeout client <time>"),
    directive("client_header_timeout", "limits the wait for a head", "timeout http-request <time>"),
    directive(
        "client_max_body_size",
        "limits bodies of requests",
        "http-request deny deny_status 413 if { req.body_size gt <bytes> }",
    ),
    directive("default_type", "is the type of files without a known extension", "mime-type <type> <extension>..."),
    directive("deny", "keeps addresses out", "http-request deny if { src <network> }"),
    directive("disable_symlinks", "follows no symbolic links", "symlinks deny"),
    directive("error_log", "has errors", "log <target> in 'global'"),
    directive("error_page", "is shown for a status", "errorfile <status> <file>, or http-error status <status> ..."),
    directive("etag", "turns entity tags on", "files always have one; http-response del-header etag takes it away"),
    directive("expires", "says how long files may be kept", "expires <time>"),
    directive("gzip", "compresses answers", "compression algo gzip"),
    directive("gzip_static", "sends FILE.gz for FILE", "precompressed gzip"),
    directive("gzip_types", "says what is compressed", "compression type <type>..."),
    directive("if", "does something under a condition", "a condition at the end of the line: if { path_beg /x/ }"),
    directive("include", "reads another file", "a folder in the place of a file: -f <folder>"),
    directive("index", "stands for a folder", "index <name>..."),
    directive("keepalive_timeout", "limits the wait between requests", "timeout http-keep-alive <time>"),
    directive("limit_conn", "limits connections of a client", "stick-table with conn_cur, and http-request deny"),
    directive("limit_rate", "limits the speed of answers", "filter bwlim-out <name> ..."),
    directive("limit_req", "limits requests of a client", "stick-table with http_req_rate, and http-request deny"),
    directive("listen", "is an address", "bind <address>:<port>"),
    directive(
        "location",
        "is for paths",
        "conditions: use_backend <name> if { path_beg /x/ }, or root <folder> if { path_beg /x/ }",
    ),
    directive("map", "makes a value of another one", "map(<file>), a converter"),
    directive(
        "open_file_cache",
        "keeps files open",
        "open-file-cache max <number>; it is on, with 1024 files for each worker",
    ),
    directive("open_file_cache_valid", "says how long files count as unchanged", "open-file-cache valid <time>"),
    directive("proxy_cache", "keeps answers of servers", "shared-cache"),
    directive("proxy_pass", "sends requests to a server", "server <name> <address>:<port> in a 'backend' section"),
    directive("proxy_read_timeout", "limits the wait for a server", "timeout server <time>"),
    directive("proxy_set_header", "changes a field of requests", "http-request set-header <name> <value>"),
    directive(
        "real_ip_header",
        "says who the client is",
        "http-request set-src hdr(x-forwarded-for), or accept-proxy on the 'bind' line",
    ),
    directive(
        "return",
        "answers with a status",
        "http-request return status <status>, or http-request redirect location <url>",
    ),
    directive("rewrite", "changes the path", "http-request replace-path <regex> <path>"),
    directive("root", "is the folder of files", "root <folder>"),
    directive("sendfile", "has the kernel send files", "nothing: it is done where it can be"),
    directive(
        "server",
        "is a site",
        "a 'frontend' or 'listen' section; a name is a condition: { hdr(host) -i example.com }",
    ),
    directive("server_name", "is the name of a site", "use_backend <name> if { hdr(host) -i example.com }"),
    directive("ssl_certificate", "is a certificate", "bind :443 ssl crt <file>"),
    directive("thread_pool", "has threads that wait for disks", "tune.disk-threads <number>"),
    directive("try_files", "looks for several files", "try-files <path>... { <path> | =<status> }"),
    directive("types", "has types of files", "mime-types <file>, mime-type <type> <extension>..."),
    directive("upstream", "is a group of servers", "a 'backend' section"),
    directive("worker_connections", "limits connections", "maxconn <number> in 'global'"),
    directive("worker_processes", "says how many workers there are", "nbthread <number> in 'global'"),
];

/// What a directive of nginx does, and what does it here.
pub fn explain(word: &str) -> Option<String> {
    let found = DIRECTIVES.iter().find(|directive| directive.name.eq_ignore_ascii_case(word.trim()))?;
    Some(format!("{} (a directive of nginx): {}.\n  here: {}", found.name, found.does, found.here))
}

/// All names.
pub fn names() -> Vec<String> {
    DIRECTIVES.iter().map(|directive| directive.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_there() {
        for directive in DIRECTIVES {
            let first = directive.here.split([' ', ',', ':', ';', '(']).next().unwrap();
            let is_word = |word: &str| haproxycfg::is_explained(&haproxycfg::explain(word));
            let is_text = matches!(first, "a" | "nothing" | "files" | "clients" | "conditions" | "map");
            assert!(is_text || is_word(first), "{}: {}", directive.name, directive.here);
        }
    }
}
