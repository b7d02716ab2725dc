//! Lines of sections that are not supported yet.

use super::{Group, Keyword};

const RING: &str = "rings are in memory alone";
const CACHE: &str = "comes with the HTTP cache";
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

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    line(Group::Ring, "backing-file", "<path>", "3.9", RING)
        .doc("File that holds the ring.", "backing-file /var/lib/haproxy/ring"),
    line(Group::Cache, "max-age", "<seconds>", "6.2.1", CACHE).doc("Longest age.", "max-age 60"),
    line(Group::Cache, "max-object-size", "<bytes>", "6.2.1", CACHE).doc("Largest object.", "max-object-size 100000"),
    line(Group::Cache, "max-secondary-entries", "<number>", "6.2.1", CACHE)
        .doc("Most variants of an object.", "max-secondary-entries 10"),
    line(Group::Cache, "process-vary", "<on|off>", "6.2.1", CACHE)
        .doc("Stores responses with Vary.", "process-vary on"),
    line(Group::Cache, "total-max-size", "<megabytes>", "6.2.1", CACHE).doc("Its size.", "total-max-size 4"),
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
