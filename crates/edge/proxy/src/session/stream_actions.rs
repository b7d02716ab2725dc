//! What rules of HTTP and TCP do alike.

use std::net::SocketAddr;

use haproxycfg::model::{AddressPart, StreamAction};
use live::variables;
use sample::{Context as _, Expression, Options, Type, Value};

use super::transaction::Transaction;

/// The greatest class, in the queue of a server or backend, that a request may have, and the least.
const PRIORITY_CLASS_MAX: i64 = 0x7ff;
/// The greatest offset in milliseconds, and the least.
const PRIORITY_OFFSET_MAX: i64 = 0x7_ffff;

/// Does what changes the stream and lets the rules go on. What is to be waited for, or may end them, is the caller's.
pub fn change(transaction: &Transaction, action: &StreamAction, options: Options) {
    match action {
        StreamAction::SetVar(set) => variables::set(transaction, set, options),
        StreamAction::UnsetVar(name) => {
            transaction.unset_variable(name);
        }
        StreamAction::Capture { expr, slot, len } => {
            let value = expr.string(transaction, options).map(|value| value.to_vec());
            if let Some(value) = value {
                transaction.set_capture(options.direction, *slot, value.get(..*len).unwrap_or(&value));
            }
        }
        StreamAction::SetLogLevel(level) => transaction.log.level.set(Some(*level)),
        StreamAction::SetTos(tos) => {
            if let Some(stream) = &transaction.client.stream {
                stream.set_tos(*tos);
            }
        }
        StreamAction::SetMark(mark) => {
            if let Some(stream) = &transaction.client.stream {
                stream.set_mark(*mark);
            }
        }
        StreamAction::SetAddress(part, expr) => set_address(transaction, *part, expr, options),
        StreamAction::SetPriority { class, expr } => set_priority(transaction, *class, expr, options),
        StreamAction::SetBandwidthLimit(limit) => transaction.set_bandwidth_limit(limit, options),
        StreamAction::Resolve(_) | StreamAction::Stick(_) => {}
    }
}

/// `set-src` and its siblings.
fn set_address(transaction: &Transaction, part: AddressPart, expr: &Expression, options: Options) {
    let source = matches!(part, AddressPart::Source | AddressPart::SourcePort);
    let current = if source { transaction.source.get() } else { transaction.destination() };
    let changed = match part {
        AddressPart::Source | AddressPart::Destination => {
            let address = match expr.value(transaction, options, Type::Addr) {
                Some(Value::Ipv4(address)) => Some(address.into()),
                Some(Value::Ipv6(address)) => Some(address.into()),
                _ => None,
            };
            address.map(|ip| SocketAddr::new(ip, current.map_or(0, |current| current.port())))
        }
        AddressPart::SourcePort | AddressPart::DestinationPort => {
            let port = expr.integer(transaction, options).and_then(|port| u16::try_from(port).ok());
            port.zip(current).map(|(port, current)| SocketAddr::new(current.ip(), port))
        }
    };
    let Some(changed) = changed else { return };
    if source {
        transaction.source.set(Some(changed));
    } else {
        transaction.changed_destination.set(Some(changed));
    }
}

/// Gives the request another class or offset in queues.
fn set_priority(transaction: &Transaction, class: bool, expr: &Expression, options: Options) {
    let Some(value) = expr.integer(transaction, options) else { return };
    let (old_class, old_offset) = transaction.by_rules.priority.get();
    transaction.by_rules.priority.set(if class {
        (value.clamp(-PRIORITY_CLASS_MAX, PRIORITY_CLASS_MAX), old_offset)
    } else {
        (old_class, value.clamp(-PRIORITY_OFFSET_MAX, PRIORITY_OFFSET_MAX))
    });
}
