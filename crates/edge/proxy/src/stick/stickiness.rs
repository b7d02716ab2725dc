//! Which server a client belongs to by a stick table, and remembering it.

use std::sync::Arc;

use haproxycfg::model::{ServerIndex, StickRule};
use live::{LiveProxy, LiveServer};
use net::Target;
use sample::{Expression, Options};
use stick::{Key, ServerKey, Table};

use crate::session::Transaction;

/// Most keys under which one request's server is remembered.
const STORES_MAX: usize = 8;

/// Runs `stick match`, `on` and `store-request`: the first server found that may be used, unless one is `assigned` already.
pub fn server_of(
    transaction: &Transaction,
    backend: &LiveProxy,
    assigned: bool,
    accepts: impl Fn(ServerIndex) -> bool,
) -> Option<ServerIndex> {
    let mut found = None;
    for rule in &backend.settings().sticking_rules {
        // NOTE: as in HAProxy this leaves out `stick on` altogether, its match too.
        if rule.stores && stores(transaction, rule, 0) {
            continue;
        }
        if !holds(rule, transaction, Options::REQUEST) {
            continue;
        }
        let Some(table) = transaction.instance.tables.get(rule.table) else { continue };
        let Some(key) = key_of(transaction, &rule.expr, table, Options::REQUEST) else { continue };
        if rule.matches {
            let remembered = table.find(key.bytes(), transaction.clock.milliseconds(), |entry| {
                entry.touch();
                entry.server()
            });
            if let Some((id, name)) = remembered
                && !assigned
                && found.is_none()
            {
                found = look_up(backend, table, id, name.as_deref()).filter(|server| accepts(*server));
            }
        }
        if rule.stores {
            remember(transaction, rule, key);
        }
    }
    found
}

/// Runs `stick store-response`, and remembers the server of the request for all rules that said so.
pub fn store(transaction: &Transaction, backend: &LiveProxy) {
    let rules = &backend.settings().store_response_rules;
    let requested = transaction.stick.borrow().as_ref().map_or(0, |stick| stick.stores.len());
    if rules.is_empty() && requested == 0 {
        return;
    }
    for rule in rules {
        if stores(transaction, rule, requested) || !holds(rule, transaction, Options::RESPONSE) {
            continue;
        }
        let Some(table) = transaction.instance.tables.get(rule.table) else { continue };
        if let Some(key) = key_of(transaction, &rule.expr, table, Options::RESPONSE) {
            remember(transaction, rule, key);
        }
    }
    let stores = match &mut *transaction.stick.borrow_mut() {
        Some(stick) => std::mem::take(&mut stick.stores),
        None => return,
    };
    let Some(server) = transaction.route.server.as_ref().filter(|server| !server.config.non_stick) else { return };
    for (index, key) in stores {
        let Some(table) = transaction.instance.tables.get(index) else { continue };
        let name = name_in(table, server);
        table.find_or_make(key.bytes(), transaction.clock.milliseconds(), |entry| {
            entry.set_server(i32::try_from(server.config.id).unwrap_or(0), name.as_deref());
            entry.touch();
        });
    }
}

/// Whether a rule before, from the store at `from` on, has stored into the same table: only the first one counts.
fn stores(transaction: &Transaction, rule: &StickRule, from: usize) -> bool {
    let stick = transaction.stick.borrow();
    stick.as_ref().is_some_and(|stick| stick.stores.iter().skip(from).any(|(table, _)| *table == rule.table))
}

fn holds(rule: &StickRule, transaction: &Transaction, options: Options) -> bool {
    rule.condition.as_ref().is_none_or(|condition| condition.holds(transaction, options))
}

fn key_of(transaction: &Transaction, expr: &Expression, table: &Table, options: Options) -> Option<Key<'static>> {
    let definition = table.definition();
    let value = expr.evaluate(transaction, options).value()?;
    sample::stick_key(value, definition.key, definition.key_len).map(Key::into_owned)
}

fn remember(transaction: &Transaction, rule: &StickRule, key: Key<'static>) {
    let stores = &mut transaction.stick().stores;
    if stores.len() < STORES_MAX {
        stores.push((rule.table, key));
    }
}

/// The server that an entry names, or the one of its number.
fn look_up(backend: &LiveProxy, table: &Table, id: i32, name: Option<&str>) -> Option<ServerIndex> {
    let named = name.and_then(|name| {
        backend.servers.iter().find(|server| match table.definition().server_key {
            ServerKey::Name => *server.config.name == *name,
            ServerKey::Address => address(server).as_deref() == Some(name),
        })
    });
    let numbered = || backend.servers.iter().find(|server| i32::try_from(server.config.id) == Ok(id));
    named.or_else(numbered).map(|server| server.index)
}

fn name_in(table: &Table, server: &Arc<LiveServer>) -> Option<String> {
    match table.definition().server_key {
        ServerKey::Name => Some(server.config.name.to_string()),
        ServerKey::Address => address(server),
    }
}

/// Where a server is, as HAProxy writes it.
fn address(server: &LiveServer) -> Option<String> {
    match server.target() {
        Target::Inet(address) => {
            let port = match server.config.port {
                haproxycfg::model::ServerPort::Fixed(_) => address.port().to_string(),
                haproxycfg::model::ServerPort::Same => "+0".to_owned(),
                haproxycfg::model::ServerPort::Offset(offset) => format!("{offset:+}"),
            };
            Some(format!("{}:{port}", address.ip()))
        }
        Target::Unix(path) => Some(path),
        Target::Abstract(name) => Some(format!("abns@{name}")),
        Target::Unresolved => None,
    }
}
