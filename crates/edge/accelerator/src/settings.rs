//! What the machines are told beside the program: the parameters of varnishd(1) that they follow.

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
    /// `http_gzip_support`
    pub gzip: bool,
    /// `http_range_support`
    pub ranges: bool,
    /// `workspace_client`, in bytes.
    pub workspace_client: usize,
    /// `workspace_backend`, in bytes.
    pub workspace_backend: usize,
    /// `server.identity` (`-i`).
    pub identity: String,
    /// `server.hostname`, also in `Via`.
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
            gzip: true,
            ranges: true,
            workspace_client: 64 << 10,
            workspace_backend: 64 << 10,
            identity: "localhost".to_owned(),
            hostname: "localhost".to_owned(),
        }
    }
}
