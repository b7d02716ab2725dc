//! Actions of the TCP rule sets.

use super::StreamAction;

/// Actions of `tcp-request` and `tcp-response`.
#[derive(Clone, Debug)]
pub enum TcpAction {
    /// `accept`.
    Accept,
    /// `reject`.
    Reject,
    /// `close` (tcp-response).
    Close,
    /// `silent-drop`.
    SilentDrop,
    /// `expect-proxy layer4`.
    ExpectProxy,
    /// `expect-netscaler-cip layer4`.
    ExpectNetscaler,
    /// `switch-mode http`.
    SwitchModeHttp,
    /// What rules of both modes have.
    Stream(StreamAction),
}
