//! An agent whose folder belongs to a cluster that its coordinator does not know: it was lost, or an older one was put in its place.
//! Nothing serves. The agent waits for the coordinator to know the cluster, or for somebody who has it made anew of what the folders of the
//! hosts know (`tidegate cluster rescue`, [`cluster::rescue`]). For that it starts the stores of its host, which serve nothing as nobody votes
//! for them, and asks each how far its log goes.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use cluster::{
    Address, Cluster, GroupId, Server,
    leading::Leader,
    record::{RecordCopy, Standing},
    rescue::{self, HostFound, Rescue, ServerFound},
};
use coord::{Coordinator, Revision, Transaction, keys::Keys};
use serde_json::{Value, json};

use crate::{
    api::Access,
    beginning,
    clock::Clock,
    connection::{Connection, Login, command, text},
    copies,
    error::AgentError,
    heights,
    http::{self, Desk, Request, Response, Token},
    link::field,
    options::Options,
    processes::Processes,
    records::{self, Change, Registration},
    settings,
};

/// What asks for a host's own part.
const VIEW: &str = "/api/rescue/view";
/// What asks whether a host waits for a rescue.
const WAITS: &str = "/api/rescue/waits";
/// How long a host may take to say that.
const WAITS_PATIENCE: Duration = Duration::from_secs(3);
/// What asks for all of it, or has it done.
const RESCUE: &str = "/api/rescue";
/// What ends the agent.
const DOWN: &str = "/api/down";
/// How long answers may take to go before the agent begins anew.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked whether the coordinator knows the cluster.
const LOOK_EACH: Duration = Duration::from_millis(300);
/// How long stores may take to open what they have.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// How long another host may take to answer.
const VIEW_PATIENCE: Duration = Duration::from_secs(25);
/// How long a store may take to answer.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// Programs are looked after so often while stores start.
const STEP: Duration = Duration::from_millis(50);

/// Why an agent is stranded, for people.
#[must_use]
pub fn reason(options: &Options, copy: &RecordCopy, (standing, known): (Standing, &RecordCopy)) -> String {
    let place = match options.etcd.is_empty() {
        true => format!("its coordinator ({})", options.folder.coordinator().display()),
        false => format!("etcd ({})", options.etcd.join(",")),
    };
    let (dir, epoch) = (options.folder.path().display(), copy.cluster.epoch);
    let (own, theirs) = (copy.history.number, known.history.number);
    let at = known.cluster.epoch;
    let knows = match standing {
        Standing::None => "knows of none".to_owned(),
        Standing::Older | Standing::Continues => {
            format!(
                "knows it as it was before, in epoch {at} (change {theirs}; the folder's record.json has change {own})"
            )
        }
        Standing::Forked { after } => format!(
            "has another history of it: both have change {after}, and from there the folder's record.json goes on to change {own}, the coordinator \
             to change {theirs} (epoch {at})"
        ),
    };
    let give_up = match standing {
        Standing::Forked { .. } => format!(
            " If what this host alone has may be given up, move the folder away (mv {dir} {dir}.before) and begin with an empty one."
        ),
        _ => String::new(),
    };
    let (groups, servers) = (copy.cluster.groups.len(), copy.cluster.servers().count());
    format!(
        "{dir} has stores of a cluster ({groups} groups, {servers} servers, epoch {epoch}), and {place} {knows}. Nothing is started. If \
         the coordinator can be restored as it was last, do that. Otherwise the cluster can be made anew of what its folders know: \
         `tidegate cluster rescue --dir {dir}`, when `up` runs on all hosts that are left.{give_up}"
    )
}

/// Whether a request is to end the agent.
#[must_use]
pub fn is_down(request: &Request) -> bool {
    request.path == DOWN && request.method == "POST"
}

/// The answer to that.
#[must_use]
pub fn ending() -> Response {
    Response::good(json!({ "pid": std::process::id() }))
}

/// A stranded agent.
pub struct Stranded<'a> {
    /// How it runs.
    pub options: &'a Options,
    /// The coordinator.
    pub coordinator: Arc<dyn Coordinator>,
    /// Its names.
    pub keys: Keys,
    /// The cluster's token.
    pub token: Token,
    /// What the folder knows.
    pub copy: RecordCopy,
    /// Why it is one.
    pub reason: String,
    /// Since when nobody of this host votes.
    pub since: Instant,
    /// The programs, once they were started.
    pub processes: Option<Processes>,
    /// It was told to end.
    pub is_ending: bool,
    /// How many requests are being answered.
    pub serving: Arc<AtomicUsize>,
    /// The versions of the record that was looked at last.
    pub looked_at: Option<(Revision, Revision)>,
}

/// What another agent says, with HTTP's number.
type Answered = Result<(u16, Value), AgentError>;
/// Requests, as they come.
type Requests = Receiver<(Request, Sender<Response>)>;

/// What takes requests of a stranded agent.
#[must_use]
pub fn desk(token: Token, login: Login) -> (Desk, Requests) {
    let (sender, requests) = mpsc::channel();
    let sender = Mutex::new(sender);
    let hand_over = move |request, answer| {
        let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send((request, answer)).is_ok()
    };
    let desk = Desk {
        hand_over: Box::new(hand_over),
        access: |_, path| (path.starts_with(RESCUE) || path == DOWN).then_some(Access::Change),
        exchange: Box::new(|_| None),
        token,
        login,
        archivist: None,
        serving: Arc::default(),
    };
    (desk, requests)
}

impl Stranded<'_> {
    /// Waits until the coordinator knows the cluster, or until it is to stop. Says whether it does.
    ///
    /// # Errors
    ///
    /// The coordinator has what makes no sense.
    pub fn wait(&mut self, requests: &Requests, stops: &AtomicBool) -> Result<bool, AgentError> {
        let clock = Clock::start();
        loop {
            if stops.load(Ordering::Relaxed) || self.is_ending {
                self.end(clock);
                self.answer_all(requests);
                // A socket that nobody listens on says less than none.
                let _ = fs::remove_file(self.options.folder.socket());
                return Ok(false);
            }
            if let Ok((request, answer)) = requests.recv_timeout(LOOK_EACH) {
                // Whoever asked may have gone.
                let _ = answer.send(self.answer(&request, requests, clock));
            }
            if let Some(processes) = &mut self.processes {
                processes.check(clock.now());
            }
            // A coordinator that does not answer is waited for.
            if self.is_known().unwrap_or(false) {
                if self.options.etcd.is_empty() {
                    self.end(clock);
                }
                self.answer_all(requests);
                return Ok(true);
            }
        }
    }

    /// Whoever has asked is answered before this agent is another one.
    fn answer_all(&self, requests: &Requests) {
        let end = Instant::now() + ANSWER_PATIENCE;
        while self.serving.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            if let Ok((_, answer)) = requests.recv_timeout(Duration::from_millis(5)) {
                let _ = answer.send(Response::refused(503, "the agent is beginning anew, or ending: ask again"));
            }
        }
    }

    fn end(&mut self, clock: Clock) {
        let Some(processes) = &mut self.processes else { return };
        processes.stop_all(clock.now());
        while !processes.all_ended() {
            processes.check(clock.now());
            thread::sleep(STEP);
        }
    }

    /// Whether the coordinator knows all that the folder knows.
    fn is_known(&mut self) -> Result<bool, AgentError> {
        let version = |key: &str| Ok::<_, AgentError>(self.coordinator.read(key)?.map_or(0, |found| found.version));
        let versions = Some((version(&self.keys.state())?, version(&self.keys.past())?));
        if versions == self.looked_at {
            return Ok(false);
        }
        let (standing, known) = copies::standing(&self.coordinator, &self.keys, &self.copy)?;
        self.looked_at = versions;
        if known.cluster.epoch > 0 && standing != Standing::Continues {
            self.reason = reason(self.options, &self.copy, (standing, &known));
        }
        Ok(known.cluster.epoch > 0 && standing == Standing::Continues)
    }

    fn answer(&mut self, request: &Request, requests: &Requests, clock: Clock) -> Response {
        let done = match request.path.as_str() {
            VIEW => Ok(self.view(clock)),
            WAITS => Ok(json!({ "waits": true })),
            RESCUE if request.method == "POST" => self.rescue(&request.body, requests, clock),
            DOWN if request.method == "POST" => {
                self.is_ending = true;
                return ending();
            }
            _ => return Response::refused(503, &self.reason),
        };
        done.map_or_else(|error| Response::refused(409, error), Response::good)
    }

    /// What this host has.
    fn view(&mut self, clock: Clock) -> Value {
        let found = self.found(None, clock);
        json!({ "host": found, "quiet_ms": self.since.elapsed().as_millis() as u64 })
    }

    /// The same; of a record that was kept elsewhere, if it is later than the folder's.
    fn found(&mut self, kept: Option<&RecordCopy>, clock: Clock) -> HostFound {
        let (host, address) = (self.options.host_name().to_owned(), self.options.host.clone());
        let known = kept.filter(|kept| kept.cluster.epoch > self.copy.cluster.epoch).unwrap_or(&self.copy);
        let former = known.cluster.address_of(&host).unwrap_or_default().to_owned();
        let own: Vec<Server> = known
            .cluster
            .servers()
            .map(|(_, server)| server)
            .filter(|server| server.host == host)
            // NOTE: one whose data is gone would begin empty, and look like a server that is there.
            .filter(|server| self.options.folder.has_data(&beginning::program_of(server).name))
            .map(|server| {
                let at = if server.address.host() == former { address.as_str() } else { server.address.host() };
                Server { address: Address::new(at, server.address.port()), ..server.clone() }
            })
            .collect();
        let processes = self.processes.get_or_insert_with(|| {
            let mut processes = Processes::waiting(self.options, own.iter().map(beginning::program_of).collect());
            // Such as how much memory one may take: it is to open all that it has.
            let groups = own.iter().filter_map(|server| Some((group_of(&known.cluster, server)?, server)));
            processes.set_settings(settings::of_stores(&known.cluster.settings, groups, &*self.options.settings));
            processes
        });
        let login = Login { password: self.options.secret.password.clone(), ..Login::default() };
        let (mut servers, end) = (BTreeMap::new(), Instant::now() + START_PATIENCE);
        while servers.len() < own.len() && Instant::now() < end {
            processes.check(clock.now());
            for address in processes.held().cloned().collect::<Vec<_>>() {
                processes.release(&address, clock.now());
            }
            for server in &own {
                if !servers.contains_key(&server.id)
                    && let Some(found) = asked(&server.address, &login)
                {
                    servers.insert(server.id.clone(), found);
                }
            }
            thread::sleep(STEP);
        }
        let copy = Some(self.copy.clone()).filter(|copy| copy.cluster.epoch > 0);
        let (heights, _) = heights::read(&self.options.folder);
        HostFound { host, address, copy, servers, heights }
    }

    /// Hosts that are there, this one first.
    fn all(
        &mut self,
        kept: Option<&RecordCopy>,
        requests: &Requests,
        clock: Clock,
    ) -> Result<Vec<HostFound>, AgentError> {
        let (_, agents) = self.coordinator.list(&self.keys.agents_all())?;
        let own = self.options.host_name().to_owned();
        let prefix = self.keys.agents_all();
        let others: Vec<(String, Registration)> = agents
            .into_iter()
            .filter_map(|(key, found)| {
                let host = key.strip_prefix(&prefix)?.to_owned();
                Some((host, serde_json::from_slice(&found.value).ok()?))
            })
            .filter(|(host, _)| *host != own)
            .collect();
        // NOTE: before any store is started: an agent that runs would give it orders.
        for (host, agent) in &others {
            let asked = ("GET", WAITS);
            let Ok((status, said)) = http::passed_on(&agent.api, &self.token, asked, &Value::Null, WAITS_PATIENCE)
            else {
                continue;
            };
            if status != 200 {
                return Err(runs_already(host, status, &said));
            }
        }
        // All start their stores at the same time.
        let token = self.token.clone();
        let asked: Vec<(String, Answered)> = thread::scope(|scope| {
            let asks: Vec<_> = others
                .iter()
                .map(|(host, agent)| {
                    let ask = || http::passed_on(&agent.api, &token, ("GET", VIEW), &Value::Null, VIEW_PATIENCE);
                    (host.clone(), scope.spawn(ask))
                })
                .collect();
            // A rescue on one of them asks this one at the same time.
            while asks.iter().any(|(_, ask)| !ask.is_finished()) {
                if let Ok((request, answer)) = requests.recv_timeout(STEP) {
                    let said = match request.path.as_str() {
                        VIEW => Response::good(self.view(clock)),
                        WAITS => Response::good(json!({ "waits": true })),
                        _ => {
                            Response::refused(503, "a rescue asks hosts at this moment: try again when it has its plan")
                        }
                    };
                    let _ = answer.send(said);
                }
            }
            let gone = || Err(AgentError::Other("it was not asked".into()));
            asks.into_iter().map(|(host, ask)| (host, ask.join().unwrap_or_else(|_| gone()))).collect()
        });
        let mut found = vec![self.found(kept, clock)];
        let mut quiet_ms = self.since.elapsed().as_millis() as u64;
        for (host, answer) in asked {
            // One that does not answer is not here.
            let Ok((status, answer)) = answer else { continue };
            let view = answer.get("host").cloned().unwrap_or_default();
            let Ok(view) = serde_json::from_value::<HostFound>(view) else {
                return Err(runs_already(&host, status, &answer));
            };
            quiet_ms = quiet_ms.min(answer.get("quiet_ms").and_then(Value::as_u64).unwrap_or(0));
            found.push(view);
        }
        // What a process before this one has voted for may serve until then.
        let patience = self.options.patience;
        let least = 2 * patience.lease_ms + patience.margin_ms;
        thread::sleep(Duration::from_millis(least.saturating_sub(quiet_ms)));
        Ok(found)
    }

    fn rescue(&mut self, body: &Value, requests: &Requests, clock: Clock) -> Result<Value, AgentError> {
        let kept = body.get("record").and_then(Value::as_str);
        let kept = kept.map(|kept| crate::copies::parsed(kept, "--record")).transpose()?;
        let found = self.all(kept.as_ref(), requests, clock)?;
        let (standing, known) = copies::standing(&self.coordinator, &self.keys, &self.copy)?;
        if known.cluster.epoch > 0 && standing == Standing::Continues {
            return Err(AgentError::Other("somebody else has rescued the cluster meanwhile".into()));
        }
        let rescue = rescue::rescue(&found, kept.as_ref(), Some(&known));
        let rescue = rescue.map_err(|error| AgentError::Other(error.to_string()))?;
        let words = rescue.words();
        let mut shown = serde_json::to_value(&rescue).unwrap_or_default();
        if let Some(fields) = shown.as_object_mut() {
            fields.insert("words".into(), words.clone().into());
            fields.insert("gist".into(), rescue.gist().into());
            fields.remove("cluster");
        }
        let said = body.get("words").and_then(Value::as_str);
        match said {
            None => return Ok(shown),
            Some(said) if said.trim() != words => {
                return Err(AgentError::Other(format!("nothing is done: the words are '{words}', not '{said}'")));
            }
            Some(_) => {}
        }
        // NOTE: between the plan that a person has read and the word, a server may have come or gone.
        if body.get("gist").and_then(Value::as_str).is_some_and(|agreed| agreed != rescue.gist()) {
            return Err(AgentError::Other(
                "nothing is done: what would be done is another thing by now, as a server or a host has come or gone. Look at it again".into(),
            ));
        }
        self.write(&rescue)?;
        Ok(shown)
    }

    fn write(&self, rescue: &Rescue) -> Result<(), AgentError> {
        let version = |key: &str| Ok::<_, AgentError>(self.coordinator.read(key)?.map_or(0, |found| found.version));
        let (state, past, led) =
            (version(&self.keys.state())?, version(&self.keys.past())?, version(&self.keys.leader())?);
        let (standing, known) = copies::standing(&self.coordinator, &self.keys, &self.copy)?;
        if known.cluster.epoch > 0 && standing == Standing::Continues {
            return Err(AgentError::Other("somebody else has rescued the cluster meanwhile".into()));
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let lost = |(host, address): &(String, String)| format!("{host} ({address})");
        let without: Vec<String> = rescue.missing.iter().map(lost).collect();
        let branches = rescue.branches.iter().map(rescue::Branch::name);
        let without: Vec<String> = without.into_iter().chain(branches).collect();
        let without = if without.is_empty() { String::new() } else { format!(", without {}", without.join(", ")) };
        let what = format!("the cluster is made anew of what folders know (epoch {}){without}", rescue.epoch);
        let cluster = rescue.cluster.clone();
        let mark = records::mark()?;
        let history = rescue.history(&mark);
        let change = Change { epoch: cluster.epoch, at, by: "rescue".into(), what, mark, cluster };
        let leader = Leader { host: self.options.host_name().to_owned(), term: rescue.term, api: String::new() };
        let transaction = Transaction::new()
            .if_version(self.keys.state(), state)
            .if_version(self.keys.past(), past)
            .if_version(self.keys.leader(), led)
            .put(self.keys.state(), records::json(&change.cluster))
            .put(self.keys.past(), records::json(&history))
            .put(self.keys.change(change.epoch), records::json(&change))
            .put(self.keys.leader(), records::json(&leader));
        self.coordinator.commit(transaction)?;
        Ok(())
    }
}

fn runs_already(host: &str, status: u16, answer: &Value) -> AgentError {
    let said = answer.get("error").and_then(Value::as_str).unwrap_or_default();
    AgentError::Other(format!(
        "the agent of host {host} runs on this coordinator, and is not waiting for a rescue (it answers {status}: {said}): `tidegate cluster \
         down` there first"
    ))
}

/// The group of a server, which may have another address by now.
fn group_of(cluster: &Cluster, server: &Server) -> Option<GroupId> {
    cluster.servers().find(|(_, known)| known.id == server.id).map(|(group, _)| group)
}

/// What a store says that it has.
fn asked(server: &Address, login: &Login) -> Option<ServerFound> {
    let mut connection = Connection::open_as(server, ASK_PATIENCE, login).ok()?;
    let replies = connection.ask(&[command(&["INFO", "replication"]), command(&["INFO", "keyspace"])]).ok()?;
    let [replication, keyspace] = replies.as_slice() else { return None };
    let offset = field(&text(replication), "master_repl_offset")?.parse().ok()?;
    let keyspace = text(keyspace);
    let keys = keyspace.lines().filter_map(|line| line.split_once(":keys=")?.1.split(',').next()?.parse::<u64>().ok());
    Some(ServerFound { offset, keys: keys.sum() })
}
