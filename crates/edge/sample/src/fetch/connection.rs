//! Connections: addresses, ports, what the transport says.

use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::context::{Address, Connection, TcpInformation};
use crate::keyword::{Call, Fetch, Fetched};
use crate::parser::ParseContext;
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

const CLIENT: Sources = Sources::of(&[Source::Client]);
const UPSTREAM: Sources = Sources::of(&[Source::ServerAddress]);
const STRING: &[ArgumentType] = &[ArgumentType::Str];

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("src", Type::Ipv4, CLIENT, |call, _| ip(client(call).and_then(|client| client.source)))
        .doc("The address of the client.", "acl office src 192.0.2.0/24"),
    Fetch::new("src_port", Type::Sint, CLIENT, |call, _| port(client(call).and_then(|client| client.source)))
        .doc("The port of the client.", "http-request set-header X-Port %[src_port]"),
    Fetch::new("src_is_local", Type::Bool, CLIENT, |call, _| {
        comes_from_here(call, client(call).and_then(|client| client.source))
    })
    .doc("Whether the client is on this machine.", "http-request allow if { src_is_local }"),
    Fetch::new("dst", Type::Ipv4, CLIENT, |call, _| ip(client(call).and_then(|client| client.destination)))
        .doc("The address that the client connected to.", "use_backend b if { dst 192.0.2.7 }"),
    Fetch::new("dst_port", Type::Sint, CLIENT, |call, _| port(client(call).and_then(|client| client.destination)))
        .doc("The port that the client connected to.", "use_backend admin if { dst_port 8443 }"),
    Fetch::new("dst_is_local", Type::Bool, CLIENT, |call, _| {
        local(call, client(call).and_then(|client| client.destination))
    })
    .doc("Whether the client connected to an address of this machine.", "acl intercepted dst_is_local,not"),
    Fetch::new("fc_src", Type::Ipv4, CLIENT, |call, _| ip(client(call).and_then(|client| client.original_source)))
        .doc("The address of the client's connection, before any rule changed it.", "log-format %[fc_src]"),
    Fetch::new("fc_src_port", Type::Sint, CLIENT, |call, _| {
        port(client(call).and_then(|client| client.original_source))
    })
    .doc("The port of the client's connection, before any rule changed it.", "log-format %[fc_src_port]"),
    Fetch::new("fc_src_is_local", Type::Bool, CLIENT, |call, _| {
        comes_from_here(call, client(call).and_then(|client| client.original_source))
    })
    .doc("Whether the client's connection comes from this machine.", "acl here fc_src_is_local"),
    Fetch::new("fc_dst", Type::Ipv4, CLIENT, |call, _| ip(client(call).and_then(|client| client.original_destination)))
        .doc("The address that the client connected to, before any rule changed it.", "log-format %[fc_dst]"),
    Fetch::new("fc_dst_port", Type::Sint, CLIENT, |call, _| {
        port(client(call).and_then(|client| client.original_destination))
    })
    .doc("The port that the client connected to, before any rule changed it.", "log-format %[fc_dst_port]"),
    Fetch::new("fc_dst_is_local", Type::Bool, CLIENT, |call, _| {
        local(call, client(call).and_then(|client| client.original_destination))
    })
    .doc("Whether the client's connection goes to an address of this machine.", "acl here fc_dst_is_local"),
    Fetch::new("fc_err", Type::Sint, CLIENT, |call, _| error_code(client(call)))
        .doc("The number of the client connection's error; 0 is none.", "error-log-format %[fc_err]"),
    Fetch::new("fc_err_str", Type::Str, CLIENT, |call, _| error_text(client(call)))
        .doc("The client connection's error in words.", "error-log-format %[fc_err_str]"),
    Fetch::new("fc_http_major", Type::Sint, CLIENT, |call, _| http_major(client(call)))
        .doc("The major version of HTTP that the client speaks.", "log-format %[fc_http_major]"),
    Fetch::new("fc_rcvd_proxy", Type::Bool, CLIENT, |call, _| {
        client(call).map(|client| Value::Bool(client.received_proxy)).into()
    })
    .doc("Whether the client's connection began with a PROXY header.", "acl proxied fc_rcvd_proxy"),
    Fetch::new("fc_pp_authority", Type::Str, CLIENT, |call, _| {
        client(call).and_then(|client| client.proxy_authority).map(Value::str).into()
    })
    .doc("The authority in the PROXY header.", "use_backend %[fc_pp_authority]"),
    Fetch::new("fc_pp_unique_id", Type::Str, CLIENT, |call, _| {
        client(call).and_then(|client| client.proxy_unique_id).map(Value::str).into()
    })
    .doc("The unique id in the PROXY header.", "unique-id-format %[fc_pp_unique_id]"),
    Fetch::new("fc_rtt", Type::Sint, CLIENT, |call, _| time(call, |tcp| tcp.rtt_us))
        .takes(STRING, 0)
        .checked(check_unit)
        .doc("The round trip time to the client, in us or ms (the default).", "log-format %[fc_rtt(us)]"),
    Fetch::new("fc_rttvar", Type::Sint, CLIENT, |call, _| time(call, |tcp| tcp.rttvar_us))
        .takes(STRING, 0)
        .checked(check_unit)
        .doc("The variance of the round trip time, in us or ms (the default).", "log-format %[fc_rttvar]"),
    Fetch::new("fc_unacked", Type::Sint, CLIENT, |call, _| counter(call, |tcp| tcp.unacked))
        .takes(STRING, 0)
        .checked(check_counter)
        .doc("Segments to the client not acknowledged yet.", "log-format %[fc_unacked]"),
    Fetch::new("fc_sacked", Type::Sint, CLIENT, |call, _| counter(call, |tcp| tcp.sacked))
        .takes(STRING, 0)
        .checked(check_counter)
        .doc("Segments to the client acknowledged out of order.", "log-format %[fc_sacked]"),
    Fetch::new("fc_retrans", Type::Sint, CLIENT, |call, _| counter(call, |tcp| tcp.retransmitted))
        .takes(STRING, 0)
        .checked(check_counter)
        .doc("Segments to the client being sent again.", "log-format %[fc_retrans]"),
    Fetch::new("fc_fackets", Type::Sint, CLIENT, |call, _| counter(call, |tcp| tcp.fackets))
        .takes(STRING, 0)
        .checked(check_counter)
        .doc("The kernel's fackets counter of the client's connection.", "log-format %[fc_fackets]"),
    Fetch::new("fc_lost", Type::Sint, CLIENT, |call, _| counter(call, |tcp| tcp.lost))
        .takes(STRING, 0)
        .checked(check_counter)
        .doc("Segments to the client that were lost.", "log-format %[fc_lost]"),
    Fetch::new("fc_reordering", Type::Sint, CLIENT, |call, _| counter(call, |tcp| tcp.reordering))
        .takes(STRING, 0)
        .checked(check_counter)
        .doc("The kernel's reordering metric of the client's connection.", "log-format %[fc_reordering]"),
    Fetch::new("bc_src", Type::Ipv4, UPSTREAM, |call, _| ip(upstream(call).and_then(|upstream| upstream.source)))
        .doc("Our address toward the server.", "log-format %[bc_src]"),
    Fetch::new("bc_src_port", Type::Sint, UPSTREAM, |call, _| {
        port(upstream(call).and_then(|upstream| upstream.source))
    })
    .doc("Our port toward the server.", "log-format %[bc_src_port]"),
    Fetch::new("bc_dst", Type::Ipv4, UPSTREAM, |call, _| ip(upstream(call).and_then(|upstream| upstream.destination)))
        .doc("The address of the server.", "log-format %[bc_dst]"),
    Fetch::new("bc_dst_port", Type::Sint, UPSTREAM, |call, _| {
        port(upstream(call).and_then(|upstream| upstream.destination))
    })
    .doc("The port of the server.", "log-format %[bc_dst_port]"),
    Fetch::new("bc_err", Type::Sint, UPSTREAM, |call, _| error_code(upstream(call)))
        .doc("The number of the server connection's error; 0 is none.", "log-format %[bc_err]"),
    Fetch::new("bc_err_str", Type::Str, UPSTREAM, |call, _| error_text(upstream(call)))
        .doc("The server connection's error in words.", "log-format %[bc_err_str]"),
    Fetch::new("bc_http_major", Type::Sint, UPSTREAM, |call, _| http_major(upstream(call)))
        .doc("The major version of HTTP spoken with the server.", "log-format %[bc_http_major]"),
];

fn client<'a>(call: &Call<'a>) -> Option<Connection<'a>> {
    call.context.client()
}

fn upstream<'a>(call: &Call<'a>) -> Option<Connection<'a>> {
    call.context.upstream()
}

fn ip<'a>(address: Option<Address>) -> Fetched<'a> {
    address.and_then(Address::ip).map(Value::address).into()
}

fn port<'a>(address: Option<Address>) -> Fetched<'a> {
    let port = address.and_then(Address::port).filter(|port| *port != 0);
    port.map(|port| Value::Sint(i64::from(port))).into()
}

fn local<'a>(call: &Call<'a>, address: Option<Address>) -> Fetched<'a> {
    let address = address.and_then(Address::ip);
    address.map(|address| Value::Bool(call.context.is_local_address(address))).into()
}

/// The same of a client, whose unix socket has no other machine to come from.
fn comes_from_here<'a>(call: &Call<'a>, address: Option<Address>) -> Fetched<'a> {
    match address {
        Some(Address::Unix) => Some(Value::Bool(true)).into(),
        address => local(call, address),
    }
}

fn error_code<'a>(connection: Option<Connection<'a>>) -> Fetched<'a> {
    connection.map(|connection| Value::Sint(i64::from(connection.error_code))).into()
}

fn error_text<'a>(connection: Option<Connection<'a>>) -> Fetched<'a> {
    let text = |text: &'a str| if text.is_empty() { "Success" } else { text };
    connection.map(|found| Value::str(text(found.error_text))).into()
}

fn http_major<'a>(connection: Option<Connection<'a>>) -> Fetched<'a> {
    connection.map(|connection| Value::Sint(i64::from(connection.http_major.max(1)))).into()
}

fn time<'a>(call: &Call<'a>, pick: impl Fn(TcpInformation) -> u32) -> Fetched<'a> {
    let Some(information) = call.context.client_information() else { return Fetched::Missing };
    let microseconds = i64::from(pick(information));
    let value = if call.text(0) == Some(b"us") { microseconds } else { (microseconds + 500) / 1000 };
    Fetched::Value(Value::Sint(value))
}

fn counter<'a>(call: &Call<'a>, pick: impl Fn(TcpInformation) -> u32) -> Fetched<'a> {
    call.context.client_information().map(|information| Value::Sint(i64::from(pick(information)))).into()
}

fn check_unit(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.first() {
        Some(Argument::Str(unit)) if !matches!(&**unit, b"us" | b"ms") => {
            Err(format!("expects 'us' or 'ms', got '{}'", String::from_utf8_lossy(unit)))
        }
        _ => Ok(()),
    }
}

fn check_counter(arguments: &mut Arguments, parser: &mut ParseContext<'_>) -> Result<(), String> {
    if !arguments.is_empty() {
        parser.warn("no argument supported for 'fc_*' sample expressions returning counters.");
        arguments.clear();
    }
    Ok(())
}
