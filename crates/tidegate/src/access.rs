//! How commands of the command line are let in by a store: the password, and TLS in redis-cli's words.

use clap::Args;
use store::{
    client::Access,
    secure::{Peer, TlsTrouble, ToServer},
};

/// Options of a connection to a store.
#[derive(Args, Debug, Default)]
pub struct AccessArguments {
    /// Speak TLS with the store.
    #[arg(long)]
    tls: bool,
    /// The file with the authorities of the store's certificate; without --cacert and --cacertdir, those that this machine trusts.
    #[arg(long, requires = "tls", value_name = "FILE")]
    cacert: Option<String>,
    /// A folder with authorities, named by their hashes (`openssl rehash`).
    #[arg(long, requires = "tls", value_name = "FOLDER")]
    cacertdir: Option<String>,
    /// The certificate to show to the store.
    #[arg(long, requires_all = ["tls", "key"], value_name = "FILE")]
    cert: Option<String>,
    /// The key of that certificate.
    #[arg(long, requires_all = ["tls", "cert"], value_name = "FILE")]
    key: Option<String>,
    /// The name to ask the store for. Its certificate must have this name.
    #[arg(long, requires = "tls", value_name = "NAME")]
    sni: Option<String>,
    /// Accept any certificate: whoever is in between can read all and change it.
    #[arg(long, requires = "tls", conflicts_with_all = ["cacert", "cacertdir"])]
    insecure: bool,
}

/// What these options make, and the environment.
pub struct OwnedAccess {
    password: Option<String>,
    peer: Option<Peer>,
}

impl AccessArguments {
    /// With the password of `REDISCLI_AUTH`.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn access(&self) -> Result<OwnedAccess, TlsTrouble> {
        let to_server = ToServer {
            authorities: self.cacert.clone(),
            authorities_folder: self.cacertdir.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            name: self.sni.clone(),
            is_anybody: self.insecure,
        };
        let peer = if self.tls { Some(to_server.peer()?) } else { None };
        Ok(OwnedAccess { password: std::env::var("REDISCLI_AUTH").ok(), peer })
    }
}

impl OwnedAccess {
    /// The password of `REDISCLI_AUTH` alone.
    pub fn by_password() -> Self {
        Self { password: std::env::var("REDISCLI_AUTH").ok(), peer: None }
    }

    pub fn as_ref(&self) -> Access<'_> {
        Access { password: self.password.as_deref(), peer: self.peer.as_ref() }
    }
}
