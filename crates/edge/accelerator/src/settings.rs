//! What the machines are told beside the program: the parameters of varnishd(1) that they follow.

/// What `transit_buffer` is where nothing is said. NOTE: Varnish has no bound of its own there, so that a slow client of a large
/// response fills the storage.
const TRANSIT_BYTES: u64 = 256 << 10;

/// Parameters; seconds where nothing else is said.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `default_ttl`: of responses that say nothing.
    pub default_ttl: f64,
    /// `default_grace`
    pub default_grace: f64,
    /// `default_keep`
    pub default_keep: f64,
    /// `shortlived`: what lives shorter is kept apart (`Transient`).
    pub shortlived: f64,
    /// `max_restarts`
    pub max_restarts: u32,
    /// `max_retries`
    pub max_retries: u32,
    /// `max_esi_depth`
    pub max_esi_depth: u32,
    /// `feature`: what begins with `esi_`.
    pub esi: cache::esi::Settings,
    /// `feature +https_scheme`: a target with `https://` is taken apart like one with `http://`.
    pub is_https_known: bool,
    /// `transit_buffer`: bytes that wait for the client of a response that is for it alone; 0 for as many as there is room for.
    pub transit_buffer: u64,
    /// `ban_lurker_age`, `ban_lurker_batch` and `ban_lurker_sleep`
    pub lurker: cache::bans::LurkerSettings,
    /// `timeout_idle`, `timeout_linger`, `send_timeout` and `idle_send_timeout`, as `sess` shows them.
    pub session_timeouts: [f64; 4],
    /// `pipe_timeout`: how long neither side of a pipe may say anything.
    pub pipe_timeout: f64,
    /// `connect_timeout`, `first_byte_timeout` and `between_bytes_timeout`, where they are set: else the sections of the backends say.
    pub backend_timeouts: [Option<f64>; 3],
    /// `http_gzip_support`
    pub gzip: bool,
    /// `http_range_support`
    pub ranges: bool,
    /// `workspace_client`, in bytes.
    pub workspace_client: usize,
    /// `workspace_backend`, in bytes.
    pub workspace_backend: usize,
    /// `server.identity` (`-i`); the hostname if it is empty.
    pub identity: String,
    /// `server.hostname`
    pub hostname: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_ttl: 120.0,
            default_grace: 10.0,
            default_keep: 0.0,
            shortlived: 10.0,
            max_restarts: 4,
            max_retries: 4,
            max_esi_depth: 5,
            esi: cache::esi::Settings::default(),
            is_https_known: false,
            transit_buffer: TRANSIT_BYTES,
            lurker: cache::bans::LurkerSettings::default(),
            session_timeouts: [5.0, 0.05, 600.0, 60.0],
            pipe_timeout: 60.0,
            backend_timeouts: [None; 3],
            gzip: true,
            ranges: true,
            workspace_client: 64 << 10,
            workspace_backend: 64 << 10,
            identity: String::new(),
            hostname: "localhost".to_owned(),
        }
    }
}

/// Why a parameter cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSet {
    /// There is none of this name.
    Unknown,
    /// The value is none for it.
    Invalid,
}

impl Settings {
    /// Sets a parameter by its name.
    ///
    /// # Errors
    /// Why it cannot be set.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), NotSet> {
        let seconds = || duration(value).ok_or(NotSet::Invalid);
        let number = || value.parse::<u32>().map_err(|_| NotSet::Invalid);
        match name {
            "default_ttl" => self.default_ttl = seconds()?,
            "default_grace" => self.default_grace = seconds()?,
            "default_keep" => self.default_keep = seconds()?,
            "shortlived" => self.shortlived = seconds()?,
            "max_restarts" => self.max_restarts = number()?,
            "max_retries" => self.max_retries = number()?,
            "max_esi_depth" => self.max_esi_depth = number()?,
            "feature" => self.set_features(value)?,
            "transit_buffer" => self.transit_buffer = bytes(value).ok_or(NotSet::Invalid)? as u64,
            "timeout_idle" => self.session_timeouts[0] = seconds()?,
            "timeout_linger" => self.session_timeouts[1] = seconds()?,
            "send_timeout" => self.session_timeouts[2] = seconds()?,
            "idle_send_timeout" => self.session_timeouts[3] = seconds()?,
            "pipe_timeout" => self.pipe_timeout = seconds()?,
            "connect_timeout" => self.backend_timeouts[0] = Some(seconds()?),
            "first_byte_timeout" => self.backend_timeouts[1] = Some(seconds()?),
            "between_bytes_timeout" => self.backend_timeouts[2] = Some(seconds()?),
            "ban_lurker_age" => self.lurker.age = seconds()?,
            "ban_lurker_batch" => self.lurker.batch = number()? as usize,
            "ban_lurker_sleep" => self.lurker.sleep = seconds()?,
            "http_gzip_support" => self.gzip = switch(value).ok_or(NotSet::Invalid)?,
            "http_range_support" => self.ranges = switch(value).ok_or(NotSet::Invalid)?,
            "workspace_client" => self.workspace_client = bytes(value).ok_or(NotSet::Invalid)?,
            "workspace_backend" => self.workspace_backend = bytes(value).ok_or(NotSet::Invalid)?,
            _ => return Err(NotSet::Unknown),
        }
        Ok(())
    }

    /// Switches features on (`+NAME`) and off (`-NAME`); of `feature`'s names those that say how pages with ESI are read.
    fn set_features(&mut self, value: &str) -> Result<(), NotSet> {
        for word in value.split(',').map(str::trim) {
            let (is_on, name) = match word.split_at_checked(1) {
                Some(("+", name)) => (true, name),
                Some(("-", name)) => (false, name),
                _ if matches!(word, "none" | "default") => {
                    self.esi = cache::esi::Settings::default();
                    self.is_https_known = false;
                    continue;
                }
                _ => return Err(NotSet::Invalid),
            };
            match name {
                "esi_disable_xml_check" => self.esi.disable_xml_check = is_on,
                "esi_ignore_other_elements" => self.esi.ignore_other_elements = is_on,
                "esi_remove_bom" => self.esi.remove_bom = is_on,
                "https_scheme" => self.is_https_known = is_on,
                "esi_include_onerror" => self.esi.heeds_onerror = is_on,
                "esi_ignore_https" => self.esi.ignore_https = is_on,
                // The others are not about what the machines do.
                _ => {}
            }
        }
        Ok(())
    }

    /// The parameters that [`Settings::set`] knows.
    pub const NAMES: [&str; 20] = [
        "default_ttl",
        "default_grace",
        "default_keep",
        "shortlived",
        "max_restarts",
        "max_retries",
        "max_esi_depth",
        "feature",
        "transit_buffer",
        "pipe_timeout",
        "connect_timeout",
        "first_byte_timeout",
        "between_bytes_timeout",
        "ban_lurker_age",
        "ban_lurker_batch",
        "ban_lurker_sleep",
        "http_gzip_support",
        "http_range_support",
        "workspace_client",
        "workspace_backend",
    ];
}

/// Seconds, with or without a unit.
#[must_use]
pub fn duration(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 7] =
        [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0), ("w", 604_800.0), ("y", 31_536_000.0)];
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = if unit.is_empty() { 1.0 } else { UNITS.iter().find(|(name, _)| *name == unit)?.1 };
    number.parse::<f64>().ok().map(|number| number * factor)
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "yes" | "true" => Some(true),
        "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Bytes, with a unit or without; of a unit there may be a part, as in `0.25k`.
#[must_use]
pub fn bytes(text: &str) -> Option<usize> {
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit.to_ascii_lowercase().trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    match number.split_once('.') {
        None => number.parse::<usize>().ok()?.checked_mul(1 << shift),
        Some(_) => part_of(number.parse().ok()?, 1 << shift),
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole bytes")]
fn part_of(number: f64, unit: usize) -> Option<usize> {
    let bytes = number * unit as f64;
    (0.0..1e15).contains(&bytes).then_some(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("256", Some(256)),
            ("40b", Some(40)),
            ("0.25k", Some(256)),
            ("1.5M", Some(3 << 19)),
            ("2x", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
