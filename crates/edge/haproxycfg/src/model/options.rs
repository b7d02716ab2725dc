//! `option` lines.

use std::net::IpAddr;

/// `option` lines that are on or off. `None` where `no option` differs from silence.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent `option` keyword")]
pub struct Options {
    /// `option abortonclose`.
    pub abortonclose: bool,
    /// `option accept-invalid-http-request`.
    pub accept_invalid_http_request: bool,
    /// `option accept-invalid-http-response`.
    pub accept_invalid_http_response: bool,
    /// `option allbackups`.
    pub allbackups: bool,
    /// `option checkcache`.
    pub checkcache: bool,
    /// `option clitcpka`.
    pub clitcpka: bool,
    /// `option srvtcpka`.
    pub srvtcpka: bool,
    /// `option disable-h2-upgrade`.
    pub disable_h2_upgrade: bool,
    /// `option dontlog-normal`.
    pub dontlog_normal: bool,
    /// `option dontlognull`.
    pub dontlognull: bool,
    /// `option log-separate-errors`.
    pub log_separate_errors: bool,
    /// `option logasap`.
    pub logasap: bool,
    /// `option forwardfor`.
    pub forwardfor: Option<ForwardFor>,
    /// `option originalto`.
    pub originalto: Option<ForwardFor>,
    /// `option http-buffer-request`.
    pub http_buffer_request: bool,
    /// `option http-ignore-probes`.
    pub http_ignore_probes: bool,
    /// `option http-no-delay`.
    pub http_no_delay: bool,
    /// `option http-pretend-keepalive`.
    pub http_pretend_keepalive: bool,
    /// `option http-use-proxy-header`.
    pub http_use_proxy_header: bool,
    /// `option independent-streams`.
    pub independent_streams: bool,
    /// `option log-health-checks`.
    pub log_health_checks: bool,
    /// `option nolinger`.
    pub nolinger: bool,
    /// `option persist`.
    pub persist: bool,
    /// `option prefer-last-server`.
    pub prefer_last_server: bool,
    /// `option redispatch [interval]`: 0 is off, HAProxy's default with the option is -1 (the last retry).
    pub redispatch: i32,
    /// `option socket-stats`.
    pub socket_stats: bool,
    /// `option transparent`.
    pub transparent: bool,
    /// `option idle-close-on-response`.
    pub idle_close_on_response: bool,
    /// `option h1-case-adjust-bogus-client`.
    pub h1_case_adjust_bogus_client: bool,
    /// `option h1-case-adjust-bogus-server`.
    pub h1_case_adjust_bogus_server: bool,
    /// `option http-restrict-req-hdr-names`.
    pub restrict_request_header_names: Option<RestrictNames>,
}

/// `option http-restrict-req-hdr-names`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestrictNames {
    /// `preserve`.
    #[default]
    Preserve,
    /// `delete`.
    Delete,
    /// `reject`.
    Reject,
}

/// `option forwardfor` and `originalto`.
#[derive(Clone, Debug)]
pub struct ForwardFor {
    /// `except`: a network whose clients get no header.
    pub except: Option<(IpAddr, u8)>,
    /// `header`; `X-Forwarded-For` or `X-Original-To` otherwise.
    pub header: String,
    /// `if-none`.
    pub if_none: bool,
}
