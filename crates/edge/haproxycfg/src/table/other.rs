//! Lines of `cache` sections, and of sections that are not supported yet.

use super::{Group, Keyword};
use crate::keywords::cache;

const RING: &str = "rings are in memory alone";
const FCGI: &str = "comes with FastCGI";

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
    line(Group::FcgiApp, "acl", "<name> <criterion> [<flag>...] <value>...", "10.1.1", FCGI)
        .doc("An ACL.", "acl is_php path_end .php"),
    line(Group::FcgiApp, "docroot", "<path>", "10.1.1", FCGI)
        .doc("Root of the documents on the server.", "docroot /var/www"),
    line(Group::FcgiApp, "index", "<file>", "10.1.1", FCGI)
        .doc("File for paths that end in a slash.", "index index.php"),
    line(Group::FcgiApp, "log-stderr", "global | <target> [<param>...]", "10.1.1", FCGI)
        .doc("Logs of the application's errors.", "log-stderr global"),
    line(Group::FcgiApp, "option", "<name>", "10.1.1", FCGI).doc("An option of FastCGI.", "option keep-conn"),
    line(Group::FcgiApp, "pass-header", "<name> [ { if | unless } <condition> ]", "10.1.1", FCGI)
        .doc("Passes a header on.", "pass-header Authorization"),
    line(Group::FcgiApp, "path-info", "<regex>", "10.1.1", FCGI)
        .doc("Splits script and path.", "path-info ^(/.+\\.php)(/.*)?$"),
    line(Group::FcgiApp, "set-param", "<name> <fmt> [ { if | unless } <condition> ]", "10.1.1", FCGI)
        .doc("Sets a parameter.", "set-param HTTPS on"),
];
