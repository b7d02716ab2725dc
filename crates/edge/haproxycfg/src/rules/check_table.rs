//! The keywords about health checks.

use super::{check_options as options, checks};
use crate::table::{Group, Keyword, Sections};

const TCP_EXPECT: &str = "[min-recv <int>] [comment <msg>] [ok-status <st>] [error-status <st>] [tout-status <st>] \
     [on-success <fmt>] [on-error <fmt>] [status-code <expr>] [!] { string | rstring | string-lf | binary | rbinary | \
     binary-lf } <pattern>";

const fn option(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Option, name, arguments, "4.2").sections(Sections::DEFAULTS_BACKEND)
}

const fn tcp(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::TcpCheck, name, arguments, "4.2")
}

/// The table.
pub(super) const KEYWORDS: &[Keyword] = &[
    option("httpchk", "[ [<method>] <uri> [<version>] ]")
        .doc("Checks servers with a request; 2xx and 3xx are healthy.", "option httpchk GET /health")
        .line(options::httpchk),
    option("tcp-check", "")
        .doc("Checks servers by the steps of 'tcp-check', or by a connection.", "option tcp-check")
        .line(options::tcp_check),
    option("redis-check", "")
        .doc("Checks that servers answer PING as Redis does.", "option redis-check")
        .line(options::redis),
    option("mysql-check", "[ user <username> [ { post-41 | pre-41 } ] ]")
        .doc("Checks the greeting of MySQL, and with a user its login.", "option mysql-check user haproxy")
        .line(options::mysql),
    option("pgsql-check", "user <username>")
        .doc("Checks that PostgreSQL answers to a start of that user.", "option pgsql-check user haproxy")
        .line(options::pgsql),
    option("smtpchk", "[ <hello> <domain> ]")
        .doc("Checks the greeting of a mail server and its answer to HELO.", "option smtpchk EHLO mydomain.org")
        .line(options::smtp),
    option("ldap-check", "")
        .doc("Checks that servers answer to an anonymous bind over LDAPv3.", "option ldap-check")
        .line(options::ldap),
    option("spop-check", "").doc("Checks that SPOP agents say hello.", "option spop-check").line(options::spop),
    option("ssl-hello-chk", "")
        .doc("Checks that servers answer to a hello of SSLv3.", "option ssl-hello-chk")
        .line(options::ssl_hello),
    option("external-check", "")
        .doc("Checks servers with the program of 'external-check command'.", "option external-check")
        .line(options::external),
    Keyword::new(Group::Proxy, "tcp-check", "<step> [arguments...]", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("A step of the health check that 'option tcp-check' turns on.", "tcp-check expect string +PONG")
        .line(checks::tcp_line),
    tcp("comment", "<string>")
        .doc("Names the following steps in reports.", "tcp-check comment \"role of the master\"")
        .line(checks::comment),
    tcp("connect", "[default] [port <expr>] [addr <ip>] [send-proxy] [linger] [comment <msg>]")
        .doc("Opens a connection. If a check has this step, it must be the first.", "tcp-check connect port 6379")
        .line(checks::connect),
    tcp("expect", TCP_EXPECT)
        .doc("Says what the server must or must not send.", "tcp-check expect string role:master")
        .line(checks::expect_text),
    tcp("send", "<data> [comment <msg>]").doc("Sends text.", "tcp-check send PING\\r\\n").line(checks::send_data),
    tcp("send-binary", "<hexstring> [comment <msg>]")
        .doc("Sends bytes, written in hexadecimal.", "tcp-check send-binary 50494e470d0a")
        .line(checks::send_data),
    tcp("send-binary-lf", "<hexfmt> [comment <msg>]")
        .doc(
            "Sends bytes that a log-format string writes in hexadecimal.",
            "tcp-check send-binary-lf %[str(PING),hex]0d0a",
        )
        .line(checks::send_data),
    tcp("send-lf", "<fmt> [comment <msg>]")
        .doc("Sends the text of a log-format string.", "tcp-check send-lf \"EHLO %[str(me)]\\r\\n\"")
        .line(checks::send_data),
    tcp("set-var(*", "<name>[,<cond>...]) <expr>")
        .doc("Sets a variable of the check.", "tcp-check set-var(check.port) int(1234)")
        .line(checks::set_variable),
    tcp("set-var-fmt(*", "<name>[,<cond>...]) <fmt>")
        .doc("Sets a variable of the check from a format.", "tcp-check set-var-fmt(check.name) \"srv\"")
        .line(checks::set_variable),
    tcp("unset-var(*", "<name>)")
        .doc("Removes a variable of the check.", "tcp-check unset-var(check.port)")
        .line(checks::unset_variable),
    Keyword::new(Group::Proxy, "http-check", "<step> [arguments...]", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("A step of the health check that 'option httpchk' turns on.", "http-check expect status 200")
        .line(checks::http_line),
    Keyword::new(Group::HttpCheck, "comment", "<string>", "4.2")
        .doc("Names the following steps in reports.", "http-check comment \"login page\"")
        .line(checks::comment),
    Keyword::new(
        Group::HttpCheck,
        "connect",
        "[default] [port <expr>] [addr <ip>] [send-proxy] [linger] [comment <msg>]",
        "4.2",
    )
    .doc("Opens a connection. If a check has this step, it must be the first.", "http-check connect port 8081")
    .line(checks::connect),
    Keyword::new(Group::HttpCheck, "disable-on-404", "", "4.2")
        .doc(
            "Gives no new clients to a server that answers 404; the server keeps its own.",
            "http-check disable-on-404",
        )
        .line(checks::disable_on_404),
    Keyword::new(
        Group::HttpCheck,
        "expect",
        "[min-recv <int>] [comment <msg>] [ok-status <st>] [error-status <st>] [tout-status <st>] [on-success <fmt>] \
         [on-error <fmt>] [status-code <expr>] [!] { status | rstatus | hdr | fhdr | string | rstring | string-lf } \
         <pattern>",
        "4.2",
    )
    .doc("Says what the response must or must not be.", "http-check expect status 200-299")
    .line(checks::expect_http),
    Keyword::new(
        Group::HttpCheck,
        "send",
        "[meth <method>] [{ uri <uri> | uri-lf <fmt> }] [ver <version>] [hdr <name> <fmt>]* \
         [{ body <string> | body-lf <fmt> }] [comment <msg>]",
        "4.2",
    )
    .doc("Describes the request of the check.", "http-check send meth GET uri /health hdr Host app.example.com")
    .line(checks::send_http),
    Keyword::new(Group::HttpCheck, "send-state", "", "4.2")
        .doc("Tells servers their state in the header X-Haproxy-Server-State.", "http-check send-state")
        .line(checks::send_state),
    Keyword::new(Group::HttpCheck, "set-var(*", "<name>[,<cond>...]) <expr>", "4.2")
        .doc("Sets a variable of the check.", "http-check set-var(check.port) int(1234)")
        .line(checks::set_variable),
    Keyword::new(Group::HttpCheck, "set-var-fmt(*", "<name>[,<cond>...]) <fmt>", "4.2")
        .doc("Sets a variable of the check from a format.", "http-check set-var-fmt(check.name) \"srv\"")
        .line(checks::set_variable),
    Keyword::new(Group::HttpCheck, "unset-var(*", "<name>)", "4.2")
        .doc("Removes a variable of the check.", "http-check unset-var(check.port)")
        .line(checks::unset_variable),
];
