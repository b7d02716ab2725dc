//! Declarations of the actions that rules of HTTP and TCP share. The tables of both say in which of their sets one stands, and
//! with which example.

macro_rules! action {
    ($group:ident, $line:literal, $name:literal, $arguments:literal, $doc:literal, $example:literal) => {
        Keyword::new(Group::$group, $name, $arguments, CHAPTER).doc($doc, concat!($line, " ", $example))
    };
}

/// An action of this name, for a set of rules and the words that its lines begin with.
macro_rules! stream_action {
    ($group:ident, $line:literal, "capture", $arguments:literal, $example:literal) => {
        action!($group, $line, "capture", $arguments, "Captures a sample for the log.", $example)
            .stream(crate::rules::stream_actions::capture)
    };
    ($group:ident, $line:literal, "set-var(*", $example:literal) => {
        action!(
            $group,
            $line,
            "set-var(*",
            "<name>[,<cond>...]) <expr>",
            "Sets a variable from an expression.",
            $example
        )
        .stream(crate::rules::stream_actions::set_var)
    };
    ($group:ident, $line:literal, "set-var-fmt(*", $example:literal) => {
        action!(
            $group,
            $line,
            "set-var-fmt(*",
            "<name>[,<cond>...]) <fmt>",
            "Sets a variable from a log-format string.",
            $example
        )
        .stream(crate::rules::stream_actions::set_var)
    };
    ($group:ident, $line:literal, "unset-var(*", $example:literal) => {
        action!($group, $line, "unset-var(*", "<name>)", "Removes a variable.", $example)
            .stream(crate::rules::stream_actions::unset_var)
    };
    ($group:ident, $line:literal, "set-bandwidth-limit", $example:literal) => {
        action!(
            $group,
            $line,
            "set-bandwidth-limit",
            "<name> [limit { <expr> | <size> }] [period { <expr> | <time> }]",
            "Turns a bandwidth limitation filter on; HAProxy 2.7's.",
            $example
        )
        .stream(crate::rules::stream_actions::set_bandwidth_limit)
    };
    ($group:ident, $line:literal, "set-log-level", $doc:literal, $example:literal) => {
        action!($group, $line, "set-log-level", "{ <level> | silent }", $doc, $example)
            .stream(crate::rules::stream_actions::set_log_level)
    };
    ($group:ident, $line:literal, "set-mark") => {
        action!($group, $line, "set-mark", "<mark>", "Sets the mark of packets to the client.", "set-mark 0x10")
            .stream(crate::rules::stream_actions::set_mark)
    };
    ($group:ident, $line:literal, "set-tos") => {
        action!($group, $line, "set-tos", "<tos>", "Sets the TOS field of packets to the client.", "set-tos 0x2e")
            .stream(crate::rules::stream_actions::set_tos)
    };
    ($group:ident, $line:literal, "sc-inc-gpc*") => {
        action!(
            $group,
            $line,
            "sc-inc-gpc*",
            "(<idx>,<sc-id>)",
            "Increments a counter of a tracked entry.",
            "sc-inc-gpc0(0)"
        )
        .stream(crate::rules::stream_actions::increment_counter)
    };
    ($group:ident, $line:literal, "sc-set-gpt*") => {
        action!(
            $group,
            $line,
            "sc-set-gpt*",
            "(<idx>,<sc-id>) { <int> | <expr> }",
            "Sets a tag of a tracked entry.",
            "sc-set-gpt0(0) 1"
        )
        .stream(crate::rules::stream_actions::set_tag)
    };
    ($group:ident, $line:literal, "track-sc*") => {
        action!(
            $group,
            $line,
            "track-sc*",
            "<key> [table <table>]",
            "Tracks an entry of a stick table by a key.",
            "track-sc0 src table limits"
        )
        .stream(crate::rules::stream_actions::track)
    };
    ($group:ident, $line:literal, "set-dst", $example:literal) => {
        action!($group, $line, "set-dst", "<expr>", "Sets the destination address of the connection.", $example)
            .stream(crate::rules::stream_actions::set_address)
    };
    ($group:ident, $line:literal, "set-dst-port") => {
        action!(
            $group,
            $line,
            "set-dst-port",
            "<expr>",
            "Sets the destination port of the connection.",
            "set-dst-port int(4000)"
        )
        .stream(crate::rules::stream_actions::set_address)
    };
    ($group:ident, $line:literal, "set-src", $example:literal) => {
        action!($group, $line, "set-src", "<expr>", "Sets the source address of the connection.", $example)
            .stream(crate::rules::stream_actions::set_address)
    };
    ($group:ident, $line:literal, "set-src-port") => {
        action!(
            $group,
            $line,
            "set-src-port",
            "<expr>",
            "Sets the source port of the connection.",
            "set-src-port int(4000)"
        )
        .stream(crate::rules::stream_actions::set_address)
    };
    ($group:ident, $line:literal, "do-resolve(*", $example:literal) => {
        action!(
            $group,
            $line,
            "do-resolve(*",
            "<var>,<resolvers>,[ipv4,ipv6]) <expr>",
            "Resolves a name by DNS.",
            $example
        )
        .stream(crate::rules::stream_actions::do_resolve)
    };
    ($group:ident, $line:literal, "set-priority-class") => {
        action!(
            $group,
            $line,
            "set-priority-class",
            "<expr>",
            "Sets the request's class in the queue.",
            "set-priority-class int(1)"
        )
        .stream(crate::rules::stream_actions::set_priority)
    };
    ($group:ident, $line:literal, "set-priority-offset") => {
        action!(
            $group,
            $line,
            "set-priority-offset",
            "<expr>",
            "Sets the request's offset in the queue.",
            "set-priority-offset int(1)"
        )
        .stream(crate::rules::stream_actions::set_priority)
    };
}
