//! A client's connection, as far as commands know it.

mod calling;
mod pieces;
mod promise;
mod replica;
mod unfinished;

use std::{
    collections::{BTreeSet, HashSet},
    rc::Rc,
};

use keyspace::{Bytes, Millis, received_query::ReceivedQuery};
use resp::{Protocol, RequestParser};

use crate::{acl::User, cluster::Standing, table::CommandName};

pub(crate) use calling::Calling;
pub(crate) use pieces::{PIECE_FROM, Pieces};
pub(crate) use promise::OutputPromise;
pub use replica::{AwaitedReplicas, Bond, ReplicaTraits};
pub use unfinished::{Rest, Unfinished};

/// Names a session. Numbers are never given twice: `CLIENT ID` is this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SessionId(pub u64);

/// What `CLIENT REPLY` said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplyMode {
    /// Commands are answered.
    #[default]
    On,
    /// They are not.
    Off,
    /// The next one is not.
    SkipNext,
    /// This one is not.
    Skip,
}

/// A transaction that is being queued.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The commands.
    pub commands: Vec<Vec<Bytes>>,
    /// How many bytes their words have.
    pub bytes: usize,
    /// Some command could not be queued: EXEC will refuse.
    pub refused: bool,
}

/// A command that waits for keys.
#[derive(Debug)]
pub struct Blocked {
    /// The command, to be run again when one of the keys has changed.
    pub words: Vec<Bytes>,
    /// The words that the client sent, if they are others.
    pub sent: Option<Vec<Bytes>>,
    /// The database it was sent on.
    pub db: usize,
    /// The keys.
    pub keys: Vec<Bytes>,
    /// When it gives up; nothing if it does not.
    pub deadline: Option<Millis>,
    /// What is answered then, as bytes of the session's protocol.
    pub on_timeout: Vec<u8>,
    /// Since when, by the clock that gives no time but an order.
    pub order: u64,
    /// Nothing is to be answered: CLIENT REPLY said so.
    pub muted: bool,
    /// The migration that it waits for; 0 if it does not.
    pub migration: u64,
    /// The replicas that it waits for.
    pub replicas: Option<AwaitedReplicas>,
    /// The memory that its words and its places in the queues of keys take.
    pub(crate) bytes: usize,
}

/// What can be asked of the role that holds the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Close {
    /// Nothing.
    #[default]
    No,
    /// Close it once what was answered has been sent.
    AfterOutput,
    /// Close it now.
    Now,
}

/// A command that is run again because a key that it waits for has changed.
#[derive(Debug)]
pub struct Retry {
    /// That key: others that the command names are not looked at.
    pub ready_key: Bytes,
    /// What the client sent, if the command was made anew to wait.
    pub received_as: Option<Vec<Bytes>>,
}

/// Where a client comes from.
#[derive(Debug)]
pub struct Connection {
    /// Its address, as `CLIENT LIST` shows it.
    pub address: String,
    /// The address that it connected to.
    pub local_address: String,
    /// The number of its socket.
    pub descriptor: i32,
    /// When it came.
    pub created: Millis,
}

/// Who a client is, and what it may.
#[derive(Debug)]
pub struct ClientAccess {
    /// The user it is; nobody for what is no client.
    pub user: Option<Rc<User>>,
    /// Whether it has said who it is, or needed not to.
    pub authenticated: bool,
    /// It must do so before anything else.
    pub auth_required: bool,
    /// Its rights have to be looked at with each command: that the user may do all is the rule, and costs no more than this.
    pub restricted: bool,
}

/// What a client has sent.
#[derive(Debug)]
pub struct Query {
    /// What came and was not parsed yet.
    pub bytes: Vec<u8>,
    /// How much of that has been run already.
    pub(crate) at: usize,
    /// How far parsing has come.
    pub parser: RequestParser,
    /// How much it had sent when what runs now began.
    pub running: usize,
    /// How much of the query is known to be still to come.
    pub missing: usize,
}

/// What a client is to be sent, and how it keeps up with that.
#[derive(Debug, Default)]
pub struct Output {
    /// What is to be sent.
    pub bytes: Vec<u8>,
    /// How many bytes the commands had that have run since there was nothing to be sent.
    pub(crate) asked_bytes: usize,
    /// It has so much to read that no more of its commands run.
    pub(crate) awaits_reading: bool,
    /// Whether the session stands in the list of those with much to read.
    pub(crate) unread_listed: bool,
    /// Whether the session stands in the list of those with output.
    pub(crate) is_listed: bool,
    /// Since when its output is over its soft limit.
    pub soft_limit_since: Option<Millis>,
    /// How safe that has to be which it tells of.
    pub(crate) promise: OutputPromise,
}

/// The keys that a transaction depends on (WATCH).
#[derive(Debug, Default)]
pub struct Watch {
    /// Keys that it watches, with their databases.
    pub keys: Vec<(usize, Bytes)>,
    /// The memory that they take.
    pub(crate) bytes: usize,
    /// A watched key has changed.
    pub has_failed: bool,
}

/// What a client listens to.
#[derive(Debug, Default)]
pub struct Listening {
    /// The channels it listens to.
    pub channels: HashSet<Bytes>,
    /// The patterns of channels it listens to.
    pub patterns: HashSet<Bytes>,
    /// The sharded channels it listens to.
    pub shard_channels: HashSet<Bytes>,
    /// The memory that all of these take.
    pub(crate) bytes: usize,
    /// Whether it gets all commands that run (MONITOR).
    pub monitors: bool,
}

/// What a client wants to be told.
#[derive(Debug, Default)]
pub struct ClientTracking {
    /// Who gets the messages instead; 0 for nobody.
    pub redirect: u64,
    /// All changes of keys with its prefixes are told.
    pub broadcast: bool,
    /// Only what is read after CLIENT CACHING YES is remembered.
    pub opt_in: bool,
    /// What is read after CLIENT CACHING NO is not remembered.
    pub opt_out: bool,
    /// CLIENT CACHING was sent, and is about the next command.
    pub caching: bool,
    /// Its own changes are not told.
    pub no_loop: bool,
    /// Who was to get the messages has gone.
    pub broken: bool,
    /// The prefixes of the keys whose changes are told.
    pub prefixes: BTreeSet<Bytes>,
    /// The memory that they take.
    pub prefix_bytes: usize,
}

/// A client.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Where it comes from.
    pub connection: Connection,
    /// Who it is.
    pub access: ClientAccess,
    /// What came.
    pub query: Query,
    /// What is to be sent.
    pub output: Output,
    /// Keys that it watches.
    pub watch: Watch,
    /// What it listens to.
    pub listening: Listening,
    /// Its database.
    pub db: usize,
    /// Its protocol.
    pub protocol: Protocol,
    /// `CLIENT SETNAME`.
    pub name: Bytes,
    /// Replies wanted or not.
    pub reply_mode: ReplyMode,
    /// The transaction being queued.
    pub transaction: Option<Box<Transaction>>,
    /// It waits for keys.
    pub blocked: Option<Box<Blocked>>,
    /// How many keys of its next command are being read from the tables.
    pub loading: usize,
    /// Whether they have been asked for.
    pub asked: bool,
    /// The rest of the reply that is being given. It counts as something that is being loaded.
    pub portions: Option<Box<Unfinished>>,
    /// What its command, which goes on over turns, has made of its reply.
    pub(crate) making: usize,
    /// Who is a caller within the process, and no client, has this.
    pub(crate) calling: Option<Box<Calling>>,
    /// The query whose command runs, if it is long: one that goes on over turns takes it over.
    pub sent: Option<Rc<ReceivedQuery>>,
    /// What an agent has said of the master that it names next.
    pub said_of_master: Option<Bond>,
    /// A command must not wait: it runs in a transaction or a script.
    pub deny_blocking: bool,
    /// The command in run is run again because a key that it waits for has changed.
    pub retry: Option<Retry>,
    /// Whether its connection is to be closed.
    pub close: Close,
    /// It is the master of this replica: its socket belongs to whoever has the link.
    pub is_master: bool,
    /// It is not a client: a script, or the log being replayed.
    pub internal: bool,
    /// It is the log being replayed: what was within the bounds of its time is done, whatever they are now.
    pub replaying: bool,
    /// When the log got the command that is run again: times to live of masters before Redis 7 count from there.
    pub replayed_at: Millis,
    /// When its last command came.
    pub last_interaction: Millis,
    /// Its last command.
    pub last_command: Option<CommandName>,
    /// `CLIENT NO-EVICT`.
    pub no_evict: bool,
    /// `CLIENT IMPORT-SOURCE`: what it sends is of another server, whose keys it may have prolonged since.
    pub imports: bool,
    /// It wants to step through its next script, which would have that leave nothing: it must not run.
    pub debugs_next_script: bool,
    /// What it wants to be told of keys that it has in a cache.
    pub tracking: Option<Box<ClientTracking>>,
    /// Its next command waits until a pause is over.
    pub postponed: bool,
    /// What it has said of itself as a replica.
    pub replica: Option<Box<ReplicaTraits>>,
    /// What it is to a node of a cluster.
    pub standing: Standing,
    /// The memory that it takes, when somebody last looked.
    pub memory: usize,
}

impl Session {
    /// A new one.
    pub fn new(id: SessionId, now: Millis) -> Self {
        Self {
            id,
            connection: Connection {
                address: String::new(),
                local_address: String::new(),
                descriptor: -1,
                created: now,
            },
            access: ClientAccess { user: None, authenticated: true, auth_required: false, restricted: false },
            db: 0,
            protocol: Protocol::Resp2,
            name: Bytes::new(),
            query: Query { bytes: Vec::new(), at: 0, parser: RequestParser::new(), running: 0, missing: 0 },
            output: Output::default(),
            watch: Watch::default(),
            listening: Listening::default(),
            reply_mode: ReplyMode::On,
            transaction: None,
            blocked: None,
            loading: 0,
            asked: false,
            portions: None,
            making: 0,
            calling: None,
            sent: None,
            said_of_master: None,
            deny_blocking: false,
            retry: None,
            close: Close::No,
            is_master: false,
            internal: false,
            replaying: false,
            replayed_at: now,
            last_interaction: now,
            last_command: None,
            no_evict: false,
            imports: false,
            debugs_next_script: false,
            tracking: None,
            postponed: false,
            replica: None,
            standing: Standing::default(),
            memory: 0,
        }
    }

    /// The key for which the command in run is run again.
    pub(crate) fn ready_key(&self) -> Option<&Bytes> {
        self.retry.as_ref().map(|retry| &retry.ready_key)
    }

    /// How much came that has not run yet.
    pub(crate) fn query_len(&self) -> usize {
        self.query.bytes.len().saturating_sub(self.query.at)
    }

    /// Forgets what came.
    pub(crate) fn drop_query(&mut self) {
        (self.query.bytes, self.query.at) = (Vec::new(), 0);
    }

    /// How much is to be sent that is made already.
    pub(crate) fn unsent(&self) -> usize {
        self.output.bytes.len() + self.portions.as_ref().map_or(0, |portions| portions.made_len())
    }

    /// Where to put what it is to be sent: behind the reply that is being given.
    pub(crate) fn output_for_others(&mut self) -> &mut Vec<u8> {
        match &mut self.portions {
            Some(portions) => &mut portions.later,
            None => &mut self.output.bytes,
        }
    }

    /// Whether the command in run is answered.
    pub(crate) fn replies_wanted(&self) -> bool {
        matches!(self.reply_mode, ReplyMode::On)
    }

    /// How many channels and patterns it listens to, without sharded ones.
    pub fn subscriptions(&self) -> usize {
        self.listening.channels.len() + self.listening.patterns.len()
    }

    /// Whether it listens to anything.
    pub fn is_subscriber(&self) -> bool {
        self.subscriptions() > 0 || !self.listening.shard_channels.is_empty()
    }

    /// The name of the user it is.
    pub fn user_name(&self) -> &[u8] {
        self.access.user.as_ref().map_or(b"(superuser)", |user| user.name.as_slice())
    }

    /// Whether it may only send commands of subscribers: RESP2 has no other way to tell messages from replies.
    pub fn is_subscriber_only(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.is_subscriber()
    }

    /// Has the command in run wait for keys; it is run again when one of them changes.
    pub fn block(&mut self, words: &[&[u8]], keys: Vec<Bytes>, deadline: Option<Millis>, on_timeout: Vec<u8>) {
        self.blocked = Some(Box::new(Blocked {
            words: words.iter().map(|word| Bytes::from_slice(word)).collect(),
            sent: None,
            db: self.db,
            keys,
            deadline,
            on_timeout,
            order: 0,
            muted: false,
            migration: 0,
            replicas: None,
            bytes: 0,
        }));
    }
}
