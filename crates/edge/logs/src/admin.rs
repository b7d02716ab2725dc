//! Messages about the process, its proxies and servers: to the log targets and to standard error, in HAProxy's words.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use haproxycfg::model::{LogDestination, ProxyKind};

use super::{
    line::{LogLevel, LogLine},
    output::{Output, Outputs},
    sender::LogSender,
    targets::LogTargets,
};

/// How standard error calls a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// `[NOTICE]`.
    Notice,
    /// `[WARNING]`.
    Warning,
    /// `[ALERT]`.
    Alert,
}

impl Severity {
    fn label(self) -> &'static str {
        match self {
            Self::Notice => "[NOTICE]",
            Self::Warning => "[WARNING]",
            Self::Alert => "[ALERT]",
        }
    }
}

/// Sends such messages from any thread. Like all logging it never waits.
#[derive(Debug)]
pub struct AdminLog {
    sender: Mutex<LogSender>,
    outputs: Arc<Outputs>,
    /// Standard error; `None` keeps the console silent.
    console: Option<Arc<Output>>,
}

impl AdminLog {
    /// With `console`, messages are printed on standard error too: not in a daemon.
    #[must_use]
    pub fn new(outputs: Arc<Outputs>, console: bool) -> Self {
        let sender = Mutex::new(LogSender::new(Arc::clone(&outputs)));
        let console = console.then(|| outputs.open(&LogDestination::Descriptor(2)));
        Self { sender, outputs, console }
    }

    /// Sends a message to log targets, without a console line.
    pub fn log(&self, targets: &LogTargets, level: LogLevel, text: &str) {
        if targets.is_empty() {
            return;
        }
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.queue(targets, &LogLine::new(level, text.as_bytes()), SystemTime::now());
        sender.flush();
    }

    /// Prints a message as HAProxy does in the foreground: `[WARNING]  (123) : text`.
    pub fn console(&self, severity: Severity, text: &str) {
        if let Some(Output::Descriptor(descriptor)) = self.console.as_deref() {
            let line = console_line(severity, text);
            self.outputs.count(descriptor.write(line.as_bytes(), &[line.len()]), self.console.as_deref());
        }
    }

    /// Sends and prints the same text.
    pub fn both(&self, targets: &LogTargets, level: LogLevel, severity: Severity, text: fmt::Arguments<'_>) {
        let text = text.to_string();
        self.console(severity, &text);
        self.log(targets, level, &text);
    }

    /// A proxy accepts nothing any more and will end.
    pub fn proxy_stopped(&self, targets: &LogTargets, name: &str, frontend_connections: u64, backend_connections: u64) {
        self.both(
            targets,
            LogLevel::Warning,
            Severity::Warning,
            format_args!(
                "Proxy {name} stopped (cumulated conns: FE: {frontend_connections}, BE: {backend_connections})."
            ),
        );
    }

    /// A proxy has lost patience with its connections (`hard-stop-after`).
    pub fn proxy_hard_stopped(&self, targets: &LogTargets, name: &str, connections: u64) {
        self.both(
            targets,
            LogLevel::Warning,
            Severity::Warning,
            format_args!("Proxy {name} hard-stopped ({connections} remaining conns will be closed)."),
        );
    }

    /// `hard-stop-after` is over. `targets` are those of the `global` section.
    pub fn hard_stop(&self, targets: &LogTargets) {
        let text = format_args!("soft-stop running for too long, performing a hard-stop.");
        self.both(targets, LogLevel::Warning, Severity::Warning, text);
    }

    /// Listeners of a proxy were paused (SIGTTOU, `disable frontend`).
    pub fn proxy_paused(&self, targets: &LogTargets, kind: ProxyKind, name: &str) {
        let text = format_args!("Paused {} {name}.", kind_word(kind));
        self.both(targets, LogLevel::Warning, Severity::Warning, text);
    }

    /// Listeners of a proxy go on (SIGTTIN, `enable frontend`).
    pub fn proxy_resumed(&self, targets: &LogTargets, kind: ProxyKind, name: &str) {
        let text = format_args!("Resumed {} {name}.", kind_word(kind));
        self.both(targets, LogLevel::Warning, Severity::Warning, text);
    }
}

fn console_line(severity: Severity, text: &str) -> String {
    format!("{:<10} ({}) : {text}\n", severity.label(), std::process::id())
}

fn kind_word(kind: ProxyKind) -> &'static str {
    match kind {
        ProxyKind::Frontend => "frontend",
        ProxyKind::Backend => "backend",
        ProxyKind::Listen => "proxy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_lines_stand_in_columns() {
        let pid = std::process::id();
        for (severity, head) in
            [(Severity::Notice, "[NOTICE]  "), (Severity::Warning, "[WARNING] "), (Severity::Alert, "[ALERT]   ")]
        {
            assert_eq!(
                console_line(severity, "Server b/s is DOWN."),
                format!("{head} ({pid}) : Server b/s is DOWN.\n")
            );
        }
    }
}
