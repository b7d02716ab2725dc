//! The processes of the demo and the folder with its configuration.

use std::{
    fs::DirBuilder,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{cluster::DemoCluster, visits};

/// What can be stopped and started, in the order of the ports: two sample sites, and the store.
pub const PARTS: [&str; 3] = ["reef", "dune", STORE];
const STORE: &str = "the store";

/// How long processes may take to end before they are killed: an agent waits for its stores.
const END_TIME_MAX: Duration = Duration::from_secs(20);
/// How long the edge may take to answer when it is asked whether it is there.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// A sample site, or the store.
struct DemoProcess {
    name: &'static str,
    port: u16,
    /// What its process is told.
    words: Vec<String>,
    process: Option<Child>,
}

/// Everything that the demo started.
pub struct Stage {
    port: u16,
    folder: PathBuf,
    parts: Vec<DemoProcess>,
    edge: Child,
    cluster: Option<DemoCluster>,
}

impl Stage {
    /// Writes the configuration and starts the store, the sites and the edge.
    pub fn build(port: u16) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id()));
        // NOTE: it must not exist: nobody else may have put anything there.
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
        let mut parts = parts(port, &folder);
        let started = write_configuration(&folder, port).and_then(|file| {
            parts.iter_mut().try_for_each(DemoProcess::start)?;
            start_edge(&file)
        });
        match started {
            Ok(edge) => Ok(Self { port, folder, parts, edge, cluster: None }),
            Err(error) => {
                parts.iter_mut().filter_map(|part| part.process.take()).for_each(end_now);
                remove(&folder);
                Err(error)
            }
        }
    }

    /// Tells of parts that have ended; an error when the edge has.
    pub fn look_after(&mut self) -> Result<(), String> {
        for (number, part) in (1..).zip(&mut self.parts) {
            let ended = part.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
            if ended.is_some() {
                part.process = None;
                println!("{} has ended. Type {number} and Enter to start it again.", part.name);
            }
        }
        match self.edge.try_wait() {
            Ok(Some(status)) => Err(format!("the edge has ended: {status}")),
            _ => Ok(()),
        }
    }

    /// Starts a part that does not run, stops one that does.
    pub fn toggle(&mut self, index: usize) -> Result<(), String> {
        let Some(part) = self.parts.get_mut(index) else { return Ok(()) };
        let is_store = part.name == STORE;
        match part.process.take() {
            Some(process) => {
                // As by kill -9, the store too: what it has answered is in its log.
                end_now(process);
                let what = if is_store {
                    "the sites answer without the number of visits"
                } else {
                    "every answer now comes from the other site"
                };
                println!("{} is stopped: {what}.", part.name);
            }
            None => {
                part.start()?;
                let what =
                    if is_store { "it counts on where it was" } else { "within a second or two it gets requests" };
                println!("{} runs again: {what}.", part.name);
            }
        }
        Ok(())
    }

    /// Puts a cache in front of the slow page, or takes it away, as a person would: in haproxy.cfg, and by a reload.
    pub fn switch_cache(&mut self) -> Result<(), String> {
        const OFF: &str = "    #shared-cache ";
        const ON: &str = "    shared-cache ";
        let file = self.folder.join("haproxy.cfg");
        let told = |error: std::io::Error| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(&file).map_err(told)?;
        let is_off = text.contains(OFF);
        let changed = if is_off { text.replace(OFF, ON) } else { text.replace(ON, OFF) };
        std::fs::write(&file, changed).map_err(told)?;
        let edge = i32::try_from(self.edge.id()).ok().and_then(Pid::from_raw);
        edge.map_or(Ok(()), |edge| kill_process(edge, Signal::USR2)).map_err(|error| told(error.into()))?;
        if is_off {
            println!("The cache is on: /slow takes half a second once, and comes from the cache for ten seconds.");
            println!("The statistics say how often, at \"slow\", and so does: tidegate log --pid {}", self.edge.id());
        } else {
            println!("The cache is off: /slow takes half a second each time.");
        }
        Ok(())
    }

    /// Starts a cluster, if there is none yet.
    pub fn start_cluster(&mut self) -> Result<(), String> {
        if self.cluster.is_some() {
            println!("The cluster runs: type 6 and Enter to kill a master, 7 to add a group.");
            return Ok(());
        }
        println!("A cluster of two groups, each a master and a replica, is started.");
        self.cluster = Some(DemoCluster::start(&self.folder, self.port + 4, part)?);
        Ok(())
    }

    /// Does something with the cluster, if there is one.
    pub fn steer_cluster(&self, act: fn(&DemoCluster)) {
        match &self.cluster {
            Some(cluster) => act(cluster),
            None => println!("There is no cluster yet: type 5 and Enter to start one."),
        }
    }

    /// Whether a page comes through the edge.
    pub fn answers(&self) -> bool {
        ask(self.port).is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200 "))
    }

    /// What there is and what to try.
    pub fn welcome(&self) -> String {
        let port = self.port;
        let file = self.folder.join("haproxy.cfg");
        let file = file.display();
        let mut text = format!(
            "
Tidegate runs. Open these in a browser:

  http://127.0.0.1:{port}/                the two sites behind one address
  http://127.0.0.1:{port}/haproxy?stats   statistics, live

"
        );
        for part in &self.parts {
            let (pid, port) = (part.process.as_ref().map_or(0, Child::id), part.port);
            text += &match part.name {
                STORE => format!(
                    "  redis-cli -p {port}                   the store, where both sites count visits, process {pid}\n"
                ),
                name => format!("  http://127.0.0.1:{port}/                {name} alone, process {pid}\n"),
            };
        }
        let first = self.parts.first().and_then(|part| part.process.as_ref()).map_or(0, Child::id);
        let edge = self.edge.id();
        text += &format!("\nThe edge is process {edge}, started by: tidegate edge -f {file}\n\nTry:\n");
        let [reef, dune, _] = PARTS;
        let store = port + 3;
        for (command, what) in [
            (format!("curl http://127.0.0.1:{port}/"), "twice: the sites answer in turn".to_owned()),
            (format!("kill {first}"), format!("ends {reef}: no request fails, the statistics show it down")),
            ("1 and Enter".to_owned(), format!("here: starts {reef} again, or stops it (2 for {dune})")),
            (format!("redis-cli -p {store} get {}", visits::KEY), "what the sites have counted".to_owned()),
            ("3 and Enter".to_owned(), "twice: the store is killed and started, no visit is lost".to_owned()),
            (format!("curl http://127.0.0.1:{port}/slow"), "a page that takes half a second".to_owned()),
            ("4 and Enter".to_owned(), "here: switches a cache on in front of it, or off".to_owned()),
            (
                "5 and Enter".to_owned(),
                "here: starts a cluster that is written to; 6 kills a master, 7 adds a group".to_owned(),
            ),
            (format!("tidegate log --pid {edge}"), "requests as they end".to_owned()),
            (format!("tidegate reload --pid {edge}"), "after a change of haproxy.cfg".to_owned()),
            (format!("tidegate ctl --pid {edge} show stat"), "commands of HAProxy's stats socket".to_owned()),
        ] {
            text += &format!("  {command:<36}  {what}\n");
        }
        text += "\nCtrl-C ends everything.";
        text
    }

    /// Ends everything and removes the folder.
    pub fn end(mut self) {
        let mut processes: Vec<Child> = self.parts.iter_mut().filter_map(|part| part.process.take()).collect();
        processes.push(self.edge);
        processes.extend(self.cluster.map(DemoCluster::end));
        for process in &processes {
            if let Ok(Some(pid)) = i32::try_from(process.id()).map(Pid::from_raw) {
                // It may have ended by itself: Ctrl-C in a terminal goes to all of them.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let begun = Instant::now();
        while begun.elapsed() < END_TIME_MAX
            && !processes.iter_mut().all(|process| matches!(process.try_wait(), Ok(Some(_))))
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        processes.into_iter().for_each(end_now);
        remove(&self.folder);
    }
}

impl DemoProcess {
    fn start(&mut self) -> Result<(), String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.process = Some(part(&words).map_err(|error| format!("cannot start {}: {error}", self.name))?);
        Ok(())
    }
}

fn parts(edge: u16, folder: &Path) -> Vec<DemoProcess> {
    let store = edge + 3;
    let data = folder.join("store").to_string_lossy().into_owned();
    let words = |name: &str, port: u16| {
        let port = port.to_string();
        let words = match name {
            STORE => vec!["store", "--bind", "127.0.0.1", "--port", &port, "--dir", &data],
            name => return vec!["site".to_owned(), name.to_owned(), port, store.to_string()],
        };
        words.into_iter().map(str::to_owned).collect()
    };
    let part = |(port, name)| DemoProcess { name, port, words: words(name, port), process: None };
    (edge + 1..).zip(PARTS).map(part).collect()
}

fn start_edge(file: &Path) -> Result<Child, String> {
    part(&["edge", "-f", &file.to_string_lossy()]).map_err(|error| format!("cannot start the edge: {error}"))
}

fn part(words: &[&str]) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).arg("demo-part").args(words).stdin(Stdio::null()).spawn()
}

/// Kills a process, if it still runs, and waits for its end.
fn end_now(mut process: Child) {
    // An error says that it has ended.
    let _ = process.kill();
    let _ = process.wait();
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        eprintln!("tidegate demo: cannot remove {}: {error}", folder.display());
    }
}

fn write_configuration(folder: &Path, port: u16) -> Result<PathBuf, String> {
    let file = folder.join("haproxy.cfg");
    let text = configuration(folder, port);
    std::fs::write(&file, &text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("{}:\n", file.display());
    for line in text.lines() {
        println!("    {line}");
    }
    println!();
    Ok(file)
}

fn configuration(folder: &Path, port: u16) -> String {
    include_str!("haproxy.cfg")
        .replace("@FOLDER@", &folder.to_string_lossy())
        .replace("@EDGE@", &port.to_string())
        .replace("@REEF@", &(port + 1).to_string())
        .replace("@DUNE@", &(port + 2).to_string())
}

/// One request through the edge.
fn ask(port: u16) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), ANSWER_TIME_MAX)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: demo\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_valid_and_says_nothing_doubtful() {
        let folder = std::env::temp_dir().join(format!("tidegate-demo-test-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("haproxy.cfg");
        std::fs::write(&file, configuration(&folder, 8080)).unwrap();
        let options =
            edge::role::EdgeOptions { sources: vec![file.to_string_lossy().into_owned()], ..Default::default() };
        let (parsed, _) = edge::role::read(&options);
        let said = edge::role::render(&parsed);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(said, "");
        assert!(parsed.config.is_some());
    }
}
