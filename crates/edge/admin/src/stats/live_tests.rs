//! Numbers and changes of an instance made from a configuration.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use live::Shared;

use super::{
    RunningEdge,
    columns::Column,
    control::{Control as _, FrontendChange, Health, PortChange, ProcessChange, ServerChange, find_proxy},
    history::Window,
    live_control::LiveControl,
    row::{Selection, proxy_rows},
    view::Detail,
};
use crate::test_instance::{configuration, instance};

const CONFIGURATION: &str = "\
global
  maxconn 500
  node here
defaults
  mode http
  timeout connect 1s
  timeout client 1s
  timeout server 1s
frontend web
  bind 127.0.0.1:80
  maxconn 50
  option socket-stats
  default_backend app
backend app
  cookie SRV insert
  server s1 127.0.0.1:8081 check cookie a weight 10
  server s2 127.0.0.1:8082 track app/s1
  server s3 127.0.0.1:8083
backend off
  disabled
listen page
  bind 127.0.0.1:81
  stats enable
";

fn running_edge() -> RunningEdge {
    let (process, instance, _) = instance(configuration(CONFIGURATION), 2);
    RunningEdge::new(Arc::new(Shared::new(process, Arc::default(), instance)), Arc::new(()))
}

fn value(edge: &RunningEdge, proxy: &str, service: &str, column: Column) -> String {
    let control = LiveControl::new(edge);
    let snapshot = control.snapshot(&|_| true, Detail::default());
    let proxy = snapshot.proxies.iter().find(|found| *found.name == *proxy).unwrap();
    let rows = proxy_rows(proxy, Selection { legends: true, ..Selection::default() });
    let row = rows.iter().find(|row| row.value(Column::ServiceName).as_text() == Some(service)).unwrap();
    let mut out = String::new();
    row.value(column).write_plain(&mut out);
    out
}

#[test]
fn what_workers_count_is_added_up() {
    let edge = running_edge();
    let shared = &edge.shared;
    let instance = shared.instance();
    let web = &instance.proxies[0];
    for worker in 0..2 {
        let traffic = web.frontend.traffic.of(worker);
        traffic.sessions.add(3);
        traffic.requests.add(10);
        traffic.response(200).add(9);
        traffic.response(503).increment();
        traffic.bytes_out.add(1_000);
        let server = instance.proxies[1].servers.get(0).unwrap();
        let server = server.side.traffic.of(worker);
        server.requests.add(4);
        for time in [10, 20, 30, 40] {
            server.response_time.record(time * (worker as u64 + 1));
        }
    }
    web.frontend.sessions.increment();
    for (proxy, service, column, expected) in [
        ("web", "FRONTEND", Column::SessionsTotal, "6"),
        ("web", "FRONTEND", Column::Requests, "20"),
        ("web", "FRONTEND", Column::Responses2xx, "18"),
        ("web", "FRONTEND", Column::Responses5xx, "2"),
        ("web", "FRONTEND", Column::BytesOut, "2000"),
        ("web", "FRONTEND", Column::SessionsNow, "1"),
        ("web", "FRONTEND", Column::SessionsLimit, "50"),
        ("page", "FRONTEND", Column::SessionsLimit, "500"),
        ("web", "sock-1", Column::Address, "127.0.0.1:80"),
        ("web", "sock-1", Column::Status, "OPEN"),
        ("app", "s1", Column::ResponseTime, "37"),
        ("app", "s1", Column::ResponseTimeMax, "80"),
        ("app", "s1", Column::Weight, "10"),
        ("app", "s1", Column::Cookie, "a"),
        ("app", "s2", Column::Tracked, "app/s1"),
        ("app", "s3", Column::Status, "no check"),
        ("app", "s3", Column::Address, "127.0.0.1:8083"),
        ("app", "BACKEND", Column::Cookie, "SRV"),
        ("app", "BACKEND", Column::Algorithm, "roundrobin"),
        ("app", "BACKEND", Column::Active, "3"),
        ("app", "BACKEND", Column::UserWeight, "12"),
        ("page", "BACKEND", Column::Status, "UP"),
    ] {
        assert_eq!(value(&edge, proxy, service, column), expected, "{proxy}/{service} {column:?}");
    }
    let names: Vec<_> = LiveControl::new(&edge)
        .snapshot(&|_| true, Detail::default())
        .proxies
        .iter()
        .map(|proxy| proxy.name.to_string())
        .collect();
    assert_eq!(names, ["web", "app", "page"], "disabled proxies have no numbers");
    let process = LiveControl::new(&edge).process();
    assert_eq!((process.node.as_str(), process.connections_max, process.workers), ("here", 500, 2));
    assert!(process.memory_bytes > 0 && process.descriptors_max > 0);
}

#[test]
fn clearing() {
    let edge = running_edge();
    let shared = &edge.shared;
    let instance = shared.instance();
    let side = &instance.proxies[0].frontend;
    side.traffic.of(0).requests.add(7);
    side.traffic.of(0).total_time.record(90);
    side.sessions.increment();
    side.sessions.increment();
    side.sessions.decrement();
    let numbers = || {
        let time = side.traffic.of(0).total_time.max();
        (side.sessions.max(), time, value(&edge, "web", "FRONTEND", Column::Requests))
    };
    assert_eq!(numbers(), (2, 90, "7".to_owned()));
    LiveControl::new(&edge).clear_counters(false);
    assert_eq!(numbers(), (1, 0, "7".to_owned()));
    LiveControl::new(&edge).clear_counters(true);
    assert_eq!(numbers(), (1, 0, "0".to_owned()));
}

#[test]
fn changes_take_effect() {
    let edge = running_edge();
    let shared = &edge.shared;
    let control = LiveControl::new(&edge);
    let app = find_proxy(&control, "app", |proxy| proxy.backend).unwrap();
    assert_eq!(find_proxy(&control, "#2", |proxy| proxy.backend).unwrap(), app);
    let s1 = control.server_named(app.index, "s1").unwrap();
    let s3 = control.server_numbered(app.index, 3).unwrap();
    let status = |service| value(&edge, "app", service, Column::Status);
    let change = |server, wanted| control.change_server(server, wanted);

    for (wanted, expected) in [
        (ServerChange::Maintain, "MAINT"),
        (ServerChange::Ready, "no check"),
        (ServerChange::Drain, "DRAIN"),
        (ServerChange::Ready, "no check"),
    ] {
        assert_eq!(change(s3, wanted.clone()), Ok(None));
        assert_eq!(status("s3"), expected, "{wanted:?}");
    }
    assert_eq!(change(s1, ServerChange::Health(Health::Down)), Ok(None));
    assert_eq!(status("s1"), "DOWN");
    assert_eq!(change(s1, ServerChange::Health(Health::Up)), Ok(None));
    assert_eq!(status("s1"), "UP");
    let s2 = control.server_named(app.index, "s2").unwrap();
    assert_eq!(
        change(s2, ServerChange::Health(Health::Down)).unwrap_err().to_string(),
        "cannot change health on a tracking server."
    );
    assert!(change(s3, ServerChange::Checks(true)).is_err(), "it has no checks");
    assert_eq!(change(s1, ServerChange::Checks(false)), Ok(None));

    assert_eq!(change(s1, ServerChange::Weight("50%".to_owned())), Ok(None));
    assert_eq!(control.weight(s1), (5, 10));
    assert!(change(s1, ServerChange::Weight("257".to_owned())).is_err());
    assert_eq!(change(s1, ServerChange::MaxConn(9)), Ok(None));
    assert_eq!(value(&edge, "app", "s1", Column::SessionsLimit), "9");

    let live = shared.instance().proxies[1].servers.get(2).unwrap();
    let epoch = live.target_epoch.load(Relaxed);
    let said = change(s3, ServerChange::Address { ip: "10.0.0.1".parse().ok(), port: Some(PortChange::Fixed(99)) });
    assert_eq!(said.unwrap().unwrap(), "IP changed from '127.0.0.1' to '10.0.0.1', port changed from '8083' to '99'");
    assert_eq!(value(&edge, "app", "s3", Column::Address), "10.0.0.1:99");
    assert!(live.target_epoch.load(Relaxed) > epoch, "connections to the old place are not used any more");
    let shut = live.shutdown_epoch.load(Relaxed);
    assert_eq!(change(s3, ServerChange::ShutSessions), Ok(None));
    assert!(live.shutdown_epoch.load(Relaxed) > shut);
}

#[test]
fn frontends_and_the_process_change() {
    let edge = running_edge();
    let control = LiveControl::new(&edge);
    let web = find_proxy(&control, "web", |proxy| proxy.frontend).unwrap().index;
    assert_eq!(control.change_frontend(web, FrontendChange::MaxConn(7)), Ok(true));
    assert_eq!(value(&edge, "web", "FRONTEND", Column::SessionsLimit), "7");
    assert_eq!(control.change_frontend(web, FrontendChange::Resume), Ok(false), "it is not paused");
    assert_eq!(control.change_frontend(web, FrontendChange::Pause), Ok(true));
    assert_eq!(control.change_frontend(web, FrontendChange::Pause), Ok(false));
    assert_eq!(value(&edge, "web", "sock-1", Column::Status), "WAITING");
    assert_eq!(control.change_frontend(web, FrontendChange::Stop), Ok(true));
    assert_eq!(value(&edge, "web", "FRONTEND", Column::Status), "STOP");
    assert!(find_proxy(&control, "web", |_| true).unwrap().stopped);
    assert!(find_proxy(&control, "off", |_| true).unwrap().stopped);

    assert_eq!(control.change_process(ProcessChange::MaxConn(100)), Ok(()));
    assert_eq!(control.process().connections_max, 100);
    assert!(control.change_process(ProcessChange::MaxConn(501)).is_err(), "above what the configuration allows");
    assert_eq!(control.change_process(ProcessChange::MaxConn(0)), Ok(()));
    assert_eq!(control.process().connections_max, 500);
}

#[test]
fn seconds_are_sampled() {
    let edge = running_edge();
    let shared = &edge.shared;
    let instance = shared.instance();
    let traffic = instance.proxies[0].frontend.traffic.of(1);
    for second in 1..=3_u64 {
        traffic.requests.add(50);
        traffic.latency.get_or_init(Box::default).record(2_000);
        traffic.response(500).add(second);
        instance.process.traffic.of(0).busy.add(500_000_000);
        edge.sampler.tick(&instance, second * 1_000);
    }
    let history = edge.sampler.history().lock().unwrap();
    let series = history.proxy("web").unwrap().frontend.as_ref().unwrap();
    let points: Vec<_> = series.after(Window::Minute, 0, 3).map(|point| (point.requests, point.errors)).collect();
    assert_eq!(points, [(0, 0), (50, 2), (50, 3)]);
    assert!(series.latency().unwrap().p50 >= 2_000);
    assert!(history.proxy("app").unwrap().server("s3").is_some());
    assert_eq!(shared.process.idle_percent(), Some(75), "half of one of two workers");
}

#[test]
fn flows_and_the_page_are_told_apart() {
    let edge = running_edge();
    let shared = &edge.shared;
    let instance = shared.instance();
    let [web, app, ..] = &instance.proxies[..] else { panic!() };
    for second in 1..=3_u64 {
        let front = web.frontend.traffic.of(0);
        front.requests.add(5);
        front.response(200).add(5);
        let page = front.page.get_or_init(Box::default);
        page.requests.add(2);
        page.response(200).add(2);
        let sources = app.backend.traffic.of(1).sources.get_or_init(Box::default);
        sources.count(&web.frontend);
        edge.sampler.tick(&instance, second * 1_000);
    }
    let history = edge.sampler.history().lock().unwrap();
    let point = history.process().last_second();
    assert_eq!((point.requests, point.answers[1]), (3, 3));
    assert_eq!(history.flows().collect::<Vec<_>>(), [("web", "app", 2)]);
}

#[test]
fn changes_are_remembered() {
    let edge = running_edge();
    let control = LiveControl::new(&edge);
    let app = find_proxy(&control, "app", |proxy| proxy.backend).unwrap().index;
    let web = find_proxy(&control, "web", |proxy| proxy.frontend).unwrap().index;
    let s1 = control.server_named(app, "s1").unwrap();
    control.change_server(s1, ServerChange::Weight("20".into())).unwrap();
    control.change_server(s1, ServerChange::Weight("nonsense".into())).unwrap_err();
    control.change_frontend(web, FrontendChange::Pause).unwrap();
    control.change_frontend(web, FrontendChange::Pause).unwrap();
    control.change_process(ProcessChange::SessionRate(7)).unwrap();
    control.change_process(ProcessChange::MaxConn(501)).unwrap_err();
    let texts: Vec<_> = control.changes_after(0).into_iter().map(|change| change.text).collect();
    assert_eq!(
        texts,
        [
            "app/s1: weight set to 20",
            "web: disabled: it refuses connections",
            "Process: greatest rate of sessions set to 7"
        ]
    );
}
