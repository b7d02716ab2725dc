//! An instance that does nothing but remember.

use std::time::{Duration, UNIX_EPOCH};

use varnishcli::{
    AdminHealth, BackendEntry, BanEntry, ChildState, Failure, Instance, Outcome, Parameters, Pids, VclEntry, VclKind,
    VclSource, VclState,
};

pub const SECRET: &[u8] = b"secret\n";

pub struct Remembering {
    pub calls: Vec<String>,
    parameters: Parameters,
    vcls: Vec<VclEntry>,
    health: AdminHealth,
    xid: String,
    state: ChildState,
}

fn vcl(name: &str, kind: VclKind) -> VclEntry {
    let temperature = if kind == VclKind::Program(VclState::Cold) { "cold" } else { "warm" };
    VclEntry {
        name: name.to_owned(),
        kind,
        temperature,
        busy: Some(0),
        is_active: false,
        is_discarded: false,
        uses: Vec::new(),
    }
}

impl Default for Remembering {
    fn default() -> Self {
        let boot = VclEntry { is_active: true, ..vcl("boot", VclKind::Program(VclState::Auto)) };
        Self {
            calls: Vec::new(),
            parameters: Parameters::default(),
            vcls: vec![boot],
            health: AdminHealth::Auto,
            xid: "0".to_owned(),
            state: ChildState::Running,
        }
    }
}

impl Instance for Remembering {
    fn secret(&mut self) -> Option<Vec<u8>> {
        Some(SECRET.to_vec())
    }

    fn identity(&mut self) -> Vec<String> {
        vec!["Linux,test".to_owned(), "tidegate".to_owned()]
    }

    fn parameters(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn parameter_changed(&mut self, name: &str) {
        self.calls.push(format!("parameter {name}"));
    }

    fn vcls(&mut self) -> Vec<VclEntry> {
        self.vcls.clone()
    }

    fn vcl_load(&mut self, name: &str, _source: VclSource<'_>, state: VclState) -> Outcome {
        self.vcls.push(vcl(name, VclKind::Program(state)));
        Ok(String::new())
    }

    fn vcl_use(&mut self, name: &str) -> Result<(), Failure> {
        self.vcls.iter_mut().for_each(|vcl| vcl.is_active = vcl.name == name);
        Ok(())
    }

    fn vcl_discard(&mut self, names: &[String]) -> Result<(), Failure> {
        self.calls.push(format!("discard {}", names.join(" ")));
        self.vcls.retain(|vcl| !names.contains(&vcl.name));
        Ok(())
    }

    fn vcl_label(&mut self, label: &str, name: &str) -> Result<(), Failure> {
        self.vcls.push(vcl(label, VclKind::Label(name.to_owned())));
        Ok(())
    }

    fn vcl_state(&mut self, name: &str, state: VclState) -> Result<(), Failure> {
        self.vcls.iter_mut().filter(|vcl| vcl.name == name).for_each(|vcl| vcl.kind = VclKind::Program(state));
        Ok(())
    }

    fn vcl_files(&mut self, _name: &str) -> Vec<(String, String)> {
        vec![("/etc/a.vcl".to_owned(), "vcl 4.1;\n".to_owned()), ("<builtin>".to_owned(), "#-\n".to_owned())]
    }

    fn ban(&mut self, words: &[String]) -> Result<(), Failure> {
        self.calls.push(format!("ban {}", words.join(" ")));
        Ok(())
    }

    fn bans(&mut self) -> Result<Vec<BanEntry>, Failure> {
        Ok(vec![BanEntry {
            time: 1_795_440_259.897_478,
            references: 0,
            is_completed: true,
            specification: String::new(),
        }])
    }

    fn backends(&mut self) -> Result<Vec<BackendEntry>, Failure> {
        Ok(vec![BackendEntry {
            name: "boot.default".to_owned(),
            kind: "backend".to_owned(),
            admin: Some(self.health),
            good_of: (8, 8),
            is_healthy: true,
            last_change: UNIX_EPOCH + Duration::from_secs(1_795_440_259),
            details: None,
        }])
    }

    fn set_backend_health(&mut self, _name: &str, health: AdminHealth) -> Result<(), Failure> {
        self.health = health;
        Ok(())
    }

    fn storages(&mut self) -> Vec<(String, String)> {
        ["s0", "Transient"].map(|name| (name.to_owned(), "malloc".to_owned())).to_vec()
    }

    fn state(&mut self) -> ChildState {
        self.state
    }

    fn start(&mut self) -> Outcome {
        self.state = ChildState::Running;
        Ok(String::new())
    }

    fn stop(&mut self) -> Outcome {
        self.state = ChildState::Stopped;
        Ok(String::new())
    }

    fn pids(&mut self) -> Pids {
        Pids { master: 10, worker: Some(11) }
    }

    fn panic_text(&mut self) -> Option<String> {
        None
    }

    fn clear_panic(&mut self, _counters: bool) {}

    fn listeners(&mut self) -> Vec<(String, String, String)> {
        vec![("a0".to_owned(), "127.0.0.1".to_owned(), "6081".to_owned())]
    }

    fn debug(&mut self, command: &str, arguments: &[String]) -> Option<Outcome> {
        if command != "debug.xid" {
            return None;
        }
        self.xid = arguments.first().cloned().unwrap_or_default();
        Some(Ok(format!("XID is {} chunk 1", self.xid)))
    }
}
