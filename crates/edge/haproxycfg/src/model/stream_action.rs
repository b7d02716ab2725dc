//! Actions that rules of HTTP and TCP share.

use sample::Expression as Expr;

use super::{AddressPart, BandwidthLimit, Resolve, SetVariable, StickAction};

/// What a rule does with a stream in either mode. Declared in `rules/stream_table`.
#[derive(Clone, Debug)]
pub enum StreamAction {
    /// `set-var`, `set-var-fmt`.
    SetVar(SetVariable),
    /// `unset-var`.
    UnsetVar(sample::VariableName),
    /// `capture`.
    Capture {
        /// What.
        expr: Expr,
        /// Slot in the captures of the frontend.
        slot: usize,
        /// Bytes kept; `usize::MAX` when only the slot's own length limits them.
        len: usize,
    },
    /// `set-log-level`; `None` is `silent`.
    SetLogLevel(Option<u8>),
    /// `set-tos`.
    SetTos(u8),
    /// `set-mark`.
    SetMark(u32),
    /// `set-src`, `set-src-port`, `set-dst`, `set-dst-port`.
    SetAddress(AddressPart, Expr),
    /// `set-priority-class`, `set-priority-offset`.
    SetPriority {
        /// Whether it is the class.
        class: bool,
        /// Its value.
        expr: Expr,
    },
    /// `set-bandwidth-limit`.
    SetBandwidthLimit(Box<BandwidthLimit>),
    /// `do-resolve`.
    Resolve(Box<Resolve>),
    /// `track-sc*`, `sc-inc-gpc*`, `sc-set-gpt*`.
    Stick(StickAction),
}
