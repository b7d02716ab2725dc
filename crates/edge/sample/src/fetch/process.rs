//! Proxies and servers.

use crate::arguments::{Argument, ArgumentType};
use crate::context::{BackendMetric, FrontendMetric, ServerMetric};
use crate::keyword::{Call, Fetch, Fetched};
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

const INTERNAL: Sources = Sources::of(&[Source::Internal]);
const FRONTEND: Sources = Sources::of(&[Source::Frontend]);
const BACKEND: Sources = Sources::of(&[Source::Backend]);
const SERVER: Sources = Sources::of(&[Source::Server]);
const A_FRONTEND: &[ArgumentType] = &[ArgumentType::Frontend];
const A_BACKEND: &[ArgumentType] = &[ArgumentType::Backend];
const A_SERVER: &[ArgumentType] = &[ArgumentType::Server];

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("avg_queue", Type::Sint, INTERNAL, |call, _| backend(call, BackendMetric::AverageQueue))
        .takes(A_BACKEND, 1)
        .doc("Requests waiting in a backend, divided by its usable servers.", "acl busy avg_queue(app) gt 3"),
    Fetch::new("be_conn", Type::Sint, INTERNAL, |call, _| backend(call, BackendMetric::Connections))
        .takes(A_BACKEND, 1)
        .doc("Connections of a backend.", "http-request deny if { be_conn(app) gt 500 }"),
    Fetch::new("be_conn_free", Type::Sint, INTERNAL, |call, _| backend(call, BackendMetric::ConnectionsFree))
        .takes(A_BACKEND, 1)
        .doc(
            "Connections that the servers of a backend still take; -1 without limit.",
            "acl full be_conn_free(app) eq 0",
        ),
    Fetch::new("be_id", Type::Sint, BACKEND, |call, _| {
        call.context.backend().map(|backend| Value::Sint(i64::from(backend.id))).into()
    })
    .doc("The number of the backend.", "log-format %[be_id]"),
    Fetch::new("be_name", Type::Str, BACKEND, |call, _| {
        call.context.backend().map(|backend| Value::str(backend.name)).into()
    })
    .doc("The name of the backend.", "http-response set-header X-Backend %[be_name]"),
    Fetch::new("be_server_timeout", Type::Sint, BACKEND, |call, _| {
        call.context.backend().map(|backend| milliseconds(backend.server_timeout_ms)).into()
    })
    .doc("The server timeout of the backend in milliseconds.", "log-format %[be_server_timeout]"),
    Fetch::new("be_sess_rate", Type::Sint, INTERNAL, |call, _| backend(call, BackendMetric::SessionRate))
        .takes(A_BACKEND, 1)
        .doc("Sessions that a backend got in the last second.", "acl fast be_sess_rate(app) gt 50"),
    Fetch::new("be_tunnel_timeout", Type::Sint, BACKEND, |call, _| {
        call.context.backend().map(|backend| milliseconds(backend.tunnel_timeout_ms)).into()
    })
    .doc("The tunnel timeout of the backend in milliseconds.", "log-format %[be_tunnel_timeout]"),
    Fetch::new("connslots", Type::Sint, INTERNAL, |call, _| backend(call, BackendMetric::ConnectionSlots))
        .takes(A_BACKEND, 1)
        .doc(
            "Free places in the servers of a backend and their queues; -1 without limit.",
            "acl full connslots(app) eq 0",
        ),
    Fetch::new("cur_server_timeout", Type::Sint, BACKEND, |call, _| {
        call.context.backend().map(|backend| milliseconds(backend.current_server_timeout_ms)).into()
    })
    .doc("The server timeout of this stream in milliseconds.", "log-format %[cur_server_timeout]"),
    Fetch::new("cur_tunnel_timeout", Type::Sint, BACKEND, |call, _| {
        call.context.backend().map(|backend| milliseconds(backend.current_tunnel_timeout_ms)).into()
    })
    .doc("The tunnel timeout of this stream in milliseconds.", "log-format %[cur_tunnel_timeout]"),
    Fetch::new("dst_conn", Type::Sint, FRONTEND, |call, _| {
        call.context.listener().map(|listener| Value::Sint(i64::from(listener.connections))).into()
    })
    .doc(
        "Connections of the bind line that accepted the client.",
        "tcp-request connection reject if { dst_conn gt 1000 }",
    ),
    Fetch::new("fe_client_timeout", Type::Sint, FRONTEND, |call, _| {
        call.context.frontend().map(|frontend| milliseconds(frontend.client_timeout_ms)).into()
    })
    .doc("The client timeout of the frontend in milliseconds.", "log-format %[fe_client_timeout]"),
    Fetch::new("fe_conn", Type::Sint, INTERNAL, |call, _| frontend(call, FrontendMetric::Connections))
        .takes(A_FRONTEND, 1)
        .doc("Connections of a frontend.", "acl full fe_conn(web) gt 2000"),
    Fetch::new("fe_defbe", Type::Str, FRONTEND, |call, _| {
        call.context.frontend().and_then(|frontend| frontend.default_backend).map(Value::str).into()
    })
    .doc("The name of the default backend of the frontend.", "use_backend %[fe_defbe]-slow if slow"),
    Fetch::new("fe_id", Type::Sint, FRONTEND, |call, _| {
        call.context.frontend().map(|frontend| Value::Sint(i64::from(frontend.id))).into()
    })
    .doc("The number of the frontend.", "log-format %[fe_id]"),
    Fetch::new("fe_name", Type::Str, FRONTEND, |call, _| {
        call.context.frontend().map(|frontend| Value::str(frontend.name)).into()
    })
    .doc("The name of the frontend.", "http-request set-header X-Frontend %[fe_name]"),
    Fetch::new("fe_req_rate", Type::Sint, INTERNAL, |call, _| frontend(call, FrontendMetric::RequestRate))
        .takes(A_FRONTEND, 1)
        .doc("Requests that a frontend got in the last second.", "acl flood fe_req_rate(web) gt 1000"),
    Fetch::new("fe_sess_rate", Type::Sint, INTERNAL, |call, _| frontend(call, FrontendMetric::SessionRate))
        .takes(A_FRONTEND, 1)
        .doc(
            "Sessions that a frontend got in the last second.",
            "tcp-request connection reject if { fe_sess_rate(web) gt 200 }",
        ),
    Fetch::new("internal.strm.is_htx", Type::Bool, INTERNAL, |call, _| {
        Fetched::Value(Value::Bool(call.context.frontend().is_some_and(|frontend| frontend.http)))
    })
    .doc("Whether the stream carries HTTP.", "acl http internal.strm.is_htx"),
    Fetch::new("last_rule_file", Type::Str, INTERNAL, |call, _| {
        call.context.last_rule().map(|rule| Value::str(rule.file.as_bytes().to_vec())).into()
    })
    .doc("The file of the last rule that ended the evaluation of rules.", "log-format %[last_rule_file]"),
    Fetch::new("last_rule_line", Type::Sint, INTERNAL, |call, _| {
        call.context.last_rule().map(|rule| Value::Sint(i64::from(rule.line))).into()
    })
    .doc("The line of the last rule that ended the evaluation of rules.", "log-format %[last_rule_line]"),
    Fetch::new("nbsrv", Type::Sint, INTERNAL, |call, _| backend(call, BackendMetric::UsableServers))
        .takes(A_BACKEND, 1)
        .doc("Usable servers of a backend.", "monitor fail if { nbsrv(app) lt 2 }"),
    Fetch::new("prio_class", Type::Sint, INTERNAL, |call, _| {
        call.context.priority().map(|(class, _)| Value::Sint(class)).into()
    })
    .doc("The priority class of the stream in queues.", "log-format %[prio_class]"),
    Fetch::new("prio_offset", Type::Sint, INTERNAL, |call, _| {
        call.context.priority().map(|(_, offset)| Value::Sint(offset)).into()
    })
    .doc("The priority offset of the stream in queues.", "log-format %[prio_offset]"),
    Fetch::new("queue", Type::Sint, INTERNAL, |call, _| backend(call, BackendMetric::Queue))
        .takes(A_BACKEND, 1)
        .doc("Requests waiting in a backend and its servers.", "acl waiting queue(app) gt 0"),
    Fetch::new("so_id", Type::Sint, FRONTEND, |call, _| {
        call.context.listener().map(|listener| Value::Sint(i64::from(listener.id))).into()
    })
    .doc("The number of the bind line that accepted the client.", "use_backend admin if { so_id 2 }"),
    Fetch::new("so_name", Type::Str, FRONTEND, |call, _| {
        call.context.listener().and_then(|listener| listener.name).map(Value::str).into()
    })
    .doc("The name of the bind line that accepted the client.", "use_backend admin if { so_name private }"),
    Fetch::new("srv_conn", Type::Sint, INTERNAL, |call, _| server(call, ServerMetric::Connections))
        .takes(A_SERVER, 1)
        .doc("Connections of a server.", "acl busy srv_conn(app/a) gt 100"),
    Fetch::new("srv_conn_free", Type::Sint, INTERNAL, |call, _| server(call, ServerMetric::ConnectionsFree))
        .takes(A_SERVER, 1)
        .doc("Connections that a server still takes; -1 without limit.", "acl full srv_conn_free(app/a) eq 0"),
    Fetch::new("srv_id", Type::Sint, SERVER, |call, _| {
        call.context.server().map(|server| Value::Sint(i64::from(server.id))).into()
    })
    .doc("The number of the server.", "http-response set-header X-Server-Id %[srv_id]"),
    Fetch::new("srv_is_up", Type::Bool, INTERNAL, |call, _| match server(call, ServerMetric::Up) {
        Fetched::Value(Value::Sint(up)) => Fetched::Value(Value::Bool(up != 0)),
        other => other,
    })
    .takes(A_SERVER, 1)
    .doc("Whether a server is up.", "use-server a if { srv_is_up(a) }"),
    Fetch::new("srv_iweight", Type::Sint, INTERNAL, |call, _| server(call, ServerMetric::InitialWeight))
        .takes(A_SERVER, 1)
        .doc("The configured weight of a server.", "log-format %[srv_iweight(app/a)]"),
    Fetch::new("srv_name", Type::Str, SERVER, |call, _| {
        call.context.server().map(|server| Value::str(server.name)).into()
    })
    .doc("The name of the server.", "http-response set-header X-Server %[srv_name]"),
    Fetch::new("srv_queue", Type::Sint, INTERNAL, |call, _| server(call, ServerMetric::Queue))
        .takes(A_SERVER, 1)
        .doc("Requests waiting for a server.", "acl waiting srv_queue(app/a) gt 0"),
    Fetch::new("srv_sess_rate", Type::Sint, INTERNAL, |call, _| server(call, ServerMetric::SessionRate))
        .takes(A_SERVER, 1)
        .doc("Sessions that a server got in the last second.", "acl fast srv_sess_rate(app/a) gt 50"),
    Fetch::new("srv_uweight", Type::Sint, INTERNAL, |call, _| server(call, ServerMetric::UserWeight))
        .takes(A_SERVER, 1)
        .doc("The weight that an administrator gave a server.", "log-format %[srv_uweight(app/a)]"),
    Fetch::new("srv_weight", Type::Sint, INTERNAL, |call, _| server(call, ServerMetric::Weight))
        .takes(A_SERVER, 1)
        .doc("The weight of a server now.", "log-format %[srv_weight(app/a)]"),
];

fn milliseconds(timeout: Option<u64>) -> Value<'static> {
    Value::Sint(timeout.map_or(0, |timeout| i64::try_from(timeout).unwrap_or(i64::MAX)))
}

fn frontend<'a>(call: &Call<'a>, metric: FrontendMetric) -> Fetched<'a> {
    call.name(0).and_then(|name| call.context.frontend_metric(name, metric)).map(Value::Sint).into()
}

fn backend<'a>(call: &Call<'a>, metric: BackendMetric) -> Fetched<'a> {
    call.name(0).and_then(|name| call.context.backend_metric(name, metric)).map(Value::Sint).into()
}

fn server<'a>(call: &Call<'a>, metric: ServerMetric) -> Fetched<'a> {
    match call.arguments.first() {
        Some(Argument::Server { backend, server }) => {
            call.context.server_metric(backend, server, metric).map(Value::Sint).into()
        }
        _ => Fetched::Missing,
    }
}
