//! A small edge to render in tests: a frontend, two backends, servers in several states.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use balance::{CheckConfig, CheckKind, CheckReport, CheckStatus, Farm, FarmConfig, ServerConfig, ServerId};

use super::{
    control::{
        Control, CookieChange, FrontendChange, ProcessChange, ProxyName, Refusal, ServerChange, ServerRef, ThreadView,
        VariableView,
    },
    view::{
        BackendView, Detail, FrontendView, Level, ListenerState, ListenerView, Place, ProcessView, ProxyView, RateView,
        ServerView, Snapshot, TableView, Time, Times, Totals,
    },
};

const NOW_MS: u64 = 60_000;

fn totals(sessions: u64) -> Totals {
    Totals {
        connections: sessions,
        sessions,
        requests: sessions * 2,
        bytes_in: sessions * 100,
        bytes_out: sessions * 2_000,
        responses: [0, sessions * 2 - 1, 0, 0, 1, 0],
        ..Totals::default()
    }
}

fn times() -> Times {
    let time = |mean| Time { mean, max: mean * 3 };
    Times { queue: time(1), connect: time(2), response: time(30), total: time(35) }
}

/// The farm of the backend `app`: `s1` up, `s2` a backup going down, `s3` down, `s4` in maintenance, `s5` unchecked.
pub fn farm() -> Farm<()> {
    let server = |name: &str, checked: bool| ServerConfig {
        name: name.to_owned(),
        check: checked.then(CheckConfig::default),
        ..ServerConfig::default()
    };
    let mut s1 = server("s1", true);
    (s1.weight, s1.maxconn) = (10, 20);
    let mut s2 = server("s2", true);
    s2.backup = true;
    let servers = vec![s1, s2, server("s3", true), server("s4", false), server("s5", false)];
    let config = FarmConfig { name: "app".to_owned(), fullconn: 100, ..FarmConfig::default() };
    let mut farm = Farm::new(config, servers, 1_000);
    let mut check = |index: usize, status, code, info: &str, now_ms| {
        let id = ServerId::new(index);
        assert!(farm.check_begin(id, CheckKind::Health, now_ms));
        farm.check_end(id, CheckReport { status, code, info: info.to_owned() }, now_ms + 3);
    };
    check(0, CheckStatus::Layer7Ok, 200, "OK", 2_000);
    check(1, CheckStatus::Layer4Ok, 0, "", 2_000);
    check(1, CheckStatus::Layer4Connection, 0, "Connection refused", 4_000);
    check(2, CheckStatus::Layer7Status, 503, "Service \"Unavailable\", sorry", 5_000);
    farm.set_maint(ServerId::new(3), 6_000);
    while farm.poll_event().is_some() {}
    farm
}

fn servers(farm: &Farm<()>) -> Vec<ServerView> {
    let view = |id: ServerId| ServerView {
        farm: farm.server_stats(id, NOW_MS).unwrap(),
        state: farm.snapshot(id, NOW_MS),
        id_forced: false,
        totals: totals(10 * (id.index() as u64 + 1)),
        times: times(),
        sessions: Level { now: 3, max: 8 },
        session_rate: RateView { now: 4, max: 9 },
        request_rate: RateView { now: 8, max: 18 },
        last_session: (id.index() != 3).then_some(2),
        observed: id.index() == 0,
        rise: 3,
        used: Level { now: 3, max: 5 },
        idle: 2,
        idle_by_worker: vec![2, 0],
        idle_limit: -1,
        purge_delay: Duration::from_secs(5),
        place: Place::Inet(SocketAddr::from(([127, 0, 0, 1], 8_080 + u16::try_from(id.index()).unwrap()))),
        host_name: None,
        service: None,
        check_place: None,
        agent_place: None,
        cookie: (id.index() == 0).then(|| "a".to_owned()),
    };
    farm.servers().map(view).collect()
}

fn backend(farm: &Farm<()>) -> BackendView {
    BackendView {
        farm: farm.backend_stats(NOW_MS),
        totals: totals(150),
        times: times(),
        sessions_limit: 100,
        session_rate: RateView { now: 20, max: 40 },
        request_rate: RateView { now: 40, max: 80 },
        last_session: Some(0),
        allbackups: false,
        cookie: Some("SRV".to_owned()),
        algorithm: "roundrobin",
    }
}

/// The whole edge.
pub fn snapshot() -> Snapshot {
    let farm = farm();
    let listener = |name: &str, id, place| ListenerView {
        name: name.into(),
        id,
        state: ListenerState::Open,
        totals: totals(75),
        sessions: Level { now: 1, max: 2 },
        sessions_limit: 0,
        place,
    };
    let web = ProxyView {
        id: 2,
        name: "web".into(),
        http: true,
        description: Some("What <everyone> sees".to_owned()),
        frontend: Some(FrontendView {
            totals: totals(150),
            sessions: Level { now: 5, max: 12 },
            sessions_limit: 2_000,
            session_rate: RateView { now: 20, max: 41 },
            request_rate: RateView { now: 40, max: 83 },
            connection_rate: RateView { now: 21, max: 42 },
            ..FrontendView::default()
        }),
        listeners: vec![
            listener("main", 1, Place::Inet(SocketAddr::from(([0, 0, 0, 0], 80)))),
            listener("sock-2", 2, Place::Unix("/run/web".to_owned())),
        ],
        listeners_shown: true,
        ..ProxyView::default()
    };
    let app = ProxyView {
        id: 3,
        name: "app".into(),
        http: true,
        servers: servers(&farm),
        backend: Some(backend(&farm)),
        ..ProxyView::default()
    };
    let empty: Farm<()> = Farm::new(FarmConfig { name: "tcp".to_owned(), ..FarmConfig::default() }, Vec::new(), 0);
    let tcp = ProxyView {
        id: 4,
        name: Arc::from("tcp"),
        frontend: Some(FrontendView { totals: totals(7), ..FrontendView::default() }),
        backend: Some(backend(&empty)),
        ..ProxyView::default()
    };
    let process = ProcessView {
        pid: 4_711,
        workers: 2,
        uptime: Duration::from_secs(60),
        connections_max: 2_000,
        connections: 5,
        connections_total: 157,
        requests_total: 314,
        node: "edge-1".to_owned(),
        ..ProcessView::default()
    };
    let clients = TableView { name: "clients".into(), key: "ip", size: 1_024, used: 3 };
    Snapshot {
        process,
        proxies: vec![web, app, tcp],
        tables: vec![clients],
        certificates: Vec::new(),
        files: Vec::new(),
    }
}

/// An edge that only writes down what it is told.
#[derive(Default)]
pub struct FakeControl {
    told: std::cell::RefCell<Vec<String>>,
    /// Its lists of patterns.
    pub patterns: sample::PatternReferences,
}

impl FakeControl {
    /// What was changed, in order.
    pub fn changes(&self) -> String {
        self.told.borrow().join(", ")
    }

    fn note(&self, what: String) {
        self.told.borrow_mut().push(what);
    }

    fn name(&self, server: ServerRef) -> String {
        let proxy = &snapshot().proxies[server.proxy];
        format!("{}/{}", proxy.name, proxy.servers[server.server].farm.name)
    }
}

impl Control for FakeControl {
    fn patterns(&self) -> Option<&sample::PatternReferences> {
        Some(&self.patterns)
    }

    fn process(&self) -> ProcessView {
        snapshot().process
    }

    fn snapshot(&self, wanted: &dyn Fn(&ProxyName) -> bool, detail: Detail) -> Snapshot {
        let mut snapshot = snapshot();
        let mut names = self.proxies().into_iter();
        snapshot.proxies.retain(|_| wanted(&names.next().unwrap()));
        for server in snapshot.proxies.iter_mut().flat_map(|proxy| &mut proxy.servers) {
            server.state = server.state.take().filter(|_| detail.states);
        }
        snapshot
    }

    fn proxies(&self) -> Vec<ProxyName> {
        let name = |(index, proxy): (usize, &ProxyView)| ProxyName {
            index,
            id: proxy.id,
            name: proxy.name.clone(),
            frontend: proxy.frontend.is_some(),
            backend: proxy.backend.is_some(),
            stopped: false,
        };
        snapshot().proxies.iter().enumerate().map(name).collect()
    }

    fn server_named(&self, proxy: usize, name: &str) -> Option<ServerRef> {
        let servers = &snapshot().proxies[proxy].servers;
        servers.iter().position(|server| server.farm.name == name).map(|server| ServerRef { proxy, server })
    }

    fn server_numbered(&self, proxy: usize, id: u32) -> Option<ServerRef> {
        let servers = &snapshot().proxies[proxy].servers;
        servers.iter().position(|server| server.farm.number == id).map(|server| ServerRef { proxy, server })
    }

    fn weight(&self, server: ServerRef) -> (u32, u32) {
        let farm = &snapshot().proxies[server.proxy].servers[server.server].farm;
        (farm.user_weight, farm.initial_weight)
    }

    fn add_server(&self, proxy: usize, name: &str, words: &[&str]) -> Result<(), Refusal> {
        self.note(format!("{proxy} add {name} {words:?}"));
        if words.is_empty() { Err(Refusal::new("no address")) } else { Ok(()) }
    }

    fn remove_server(&self, server: ServerRef) -> Result<(), Refusal> {
        self.note(format!("{} del", self.name(server)));
        Ok(())
    }

    fn change_cookie(&self, proxy: usize, change: CookieChange) {
        self.note(format!("{proxy} {change:?}"));
    }

    fn threads(&self) -> Vec<ThreadView> {
        vec![
            ThreadView { tasks: 3, accepted: 5, ..ThreadView::default() },
            ThreadView { tasks: 4, ..ThreadView::default() },
        ]
    }

    fn is_dynamic(&self, _: usize) -> bool {
        true
    }

    fn asks_agent(&self, server: ServerRef) -> bool {
        snapshot().proxies[server.proxy].servers[server.server].farm.agent.is_some()
    }

    fn change_server(&self, server: ServerRef, change: ServerChange) -> Result<Option<String>, Refusal> {
        if change == ServerChange::AgentChecks(true) && !self.asks_agent(server) {
            return Err(Refusal::new("Agent was not configured on this server, cannot enable."));
        }
        let told = format!("{} {change:?}", self.name(server));
        let answer = match &change {
            ServerChange::Weight(weight) => {
                let id = ServerId::new(server.server);
                let change = balance::WeightChange::parse(weight);
                let done = change.and_then(|weight| farm().set_weight(id, weight, NOW_MS));
                done.map(|()| None).map_err(|error| Refusal::new(error.to_string()))?
            }
            ServerChange::Address { ip, port } => {
                let current = SocketAddr::from(([127, 0, 0, 1], 8_080));
                Some(super::control::moved(current, None, true, *ip, port.clone()).2)
            }
            _ => None,
        };
        self.note(told);
        Ok(answer)
    }

    fn change_frontend(&self, proxy: usize, change: FrontendChange) -> Result<bool, Refusal> {
        self.note(format!("{} {change:?}", snapshot().proxies[proxy].name));
        Ok(change != FrontendChange::Resume)
    }

    fn change_process(&self, change: ProcessChange) -> Result<(), Refusal> {
        if change == ProcessChange::MaxConn(1_000_000) {
            return Err(Refusal::new("Value out of range."));
        }
        self.note(format!("process {change:?}"));
        Ok(())
    }

    fn clear_counters(&self, all: bool) {
        self.note(format!("clear {all}"));
    }

    fn captures(&self, _: &dyn Fn(&ProxyName) -> bool) -> (u64, Vec<live::capture::Capture>) {
        (0, Vec::new())
    }

    fn variable(&self, name: &str) -> Option<VariableView> {
        (name == "proc.a").then(|| VariableView { kind: "str", text: Some(b"x\ty".to_vec()) })
    }

    fn set_variable(&self, name: &str, is_format: bool, text: &str) -> Result<(), Refusal> {
        self.note(format!("{name} {is_format} {text}"));
        Ok(())
    }

    fn environment(&self) -> Vec<(String, String)> {
        vec![("HOME".to_owned(), "/root".to_owned()), ("A".to_owned(), "1".to_owned())]
    }
}
