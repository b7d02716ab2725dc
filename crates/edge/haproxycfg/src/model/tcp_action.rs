//! Actions of the TCP rule sets.

use sample::Expression as Expr;

use super::{AddressPart, BandwidthLimit, Resolve, SetVariable, StickAction};

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
    /// `do-resolve`.
    Resolve(Box<Resolve>),
    /// `set-var`, `set-var-fmt`.
    SetVar(SetVariable),
    /// `unset-var`.
    UnsetVar(sample::VariableName),
    /// `capture`.
    Capture {
        /// What.
        expr: Expr,
        /// Slot.
        slot: usize,
        /// Bytes kept.
        len: usize,
    },
    /// `set-src` and siblings.
    SetAddress(AddressPart, Expr),
    /// `set-tos`.
    SetTos(u8),
    /// `set-mark`.
    SetMark(u32),
    /// `set-log-level`.
    SetLogLevel(Option<u8>),
    /// `set-priority-class`, `set-priority-offset`: whether it is the class, and its value.
    SetPriority {
        /// The class; otherwise the offset.
        class: bool,
        /// Value.
        expr: Expr,
    },
    /// `set-bandwidth-limit`.
    SetBandwidthLimit(Box<BandwidthLimit>),
    /// `switch-mode http`.
    SwitchModeHttp,
    /// `track-sc*`, `sc-inc-gpc*`, `sc-set-gpt*`.
    Stick(StickAction),
}
