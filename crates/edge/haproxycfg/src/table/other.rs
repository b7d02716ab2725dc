//! Lines of `cache` and `fcgi-app` sections, and what is not supported of others.

use super::{Group, Keyword, LineParser};
use crate::keywords::{cache, fcgi_app};

const RING: &str = "rings are in memory alone";

const fn line(
    group: Group,
    name: &'static str,
    arguments: &'static str,
    chapter: &'static str,
    why: &'static str,
) -> Keyword {
    Keyword::new(group, name, arguments, chapter).not_yet(why)
}

/// A line of `cache`.
const fn own(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Cache, name, arguments, "6.2.1")
}

/// A line of `fcgi-app`.
const fn fcgi(name: &'static str, arguments: &'static str, parser: LineParser) -> Keyword {
    Keyword::new(Group::FcgiApp, name, arguments, "10.1.1").line(parser)
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    line(Group::Ring, "backing-file", "<path>", "3.9", RING)
        .doc("The file that holds the ring.", "backing-file /var/lib/haproxy/ring"),
    own("max-age", "<seconds>").doc("How many seconds the cache keeps an object.", "max-age 60").line(cache::max_age),
    own("max-object-size", "<bytes>")
        .doc("The size of the largest object, in bytes.", "max-object-size 100000")
        .line(cache::max_object_size),
    own("max-secondary-entries", "<number>")
        .doc("How many variants of an object the cache keeps.", "max-secondary-entries 10")
        .line(cache::max_secondary_entries),
    own("process-vary", "<on|off>").doc("Stores responses with Vary.", "process-vary on").line(cache::process_vary),
    own("total-max-size", "<megabytes>")
        .doc("The size of the cache, in megabytes.", "total-max-size 4")
        .line(cache::total_max_size),
    fcgi("acl", "<name> <criterion> [<flag>...] <value>...", fcgi_app::acl)
        .doc("A condition, or more values of it; no other section sees it.", "acl is_login path_beg /login"),
    fcgi("docroot", "<path>", fcgi_app::docroot)
        .doc("The folder of the documents, as the application sees it.", "docroot /var/www/my-app"),
    fcgi("index", "<script-name>", fcgi_app::index)
        .doc("The script that a path means which ends in a slash.", "index index.php"),
    fcgi("log-stderr", "{ global | <address> [len <length>] [format <format>] [sample <ranges>:<sample_size>] <facility> [<level> [<minlevel>]] }", fcgi_app::log_stderr)
        .doc("Where the application's complaints go.", "log-stderr global"),
    fcgi("option", "{ get-values | keep-conn | max-reqs <reqs> | mpxs-buffer <size> | mpxs-conns | mpxs-wait <time> }", fcgi_app::option)
        .doc(
            "How connections are used: whether they stay open, carry several requests, how many, whether the \
             application is asked for that, and what an answer that is not taken may cost the others.",
            "option max-reqs 10",
        )
        .negatable(),
    fcgi("pass-header", "<name> [ { if | unless } <condition> ]", fcgi_app::pass_header)
        .doc("Lets the application see a header that it does not see otherwise.", "pass-header Authorization"),
    fcgi("path-info", "<regex>", fcgi_app::path_info)
        .doc("Parts a path into the script and what follows it.", "path-info ^(/.+\\.php)(/.*)?$"),
    fcgi("set-param", "<name> <fmt> [ { if | unless } <condition> ]", fcgi_app::set_param)
        .doc("Sets a variable of the application.", "set-param REDIRECT_STATUS 200"),
];
