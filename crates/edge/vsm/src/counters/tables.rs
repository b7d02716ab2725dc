//! All counters: the one table of names, kinds, formats, levels and meanings. Names and places are Varnish's.

use super::{Counter, CounterTable, Format, Kind, Level, Table};

macro_rules! tables {
    ($($(#[doc = $doc:literal])* $type:ident $name:literal $order:literal $about:literal {
        $($counter:ident $kind:ident $format:ident $level:ident $meaning:literal;)*
    })*) => {$(
        $(#[doc = $doc])*
        #[expect(non_camel_case_types, reason = "the names are Varnish's, as readers see them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = $meaning] $counter,)*
        }

        impl $type {
            /// Every counter, in the order of the places.
            pub const ALL: &[Self] = &[$(Self::$counter),*];
        }

        impl CounterTable for $type {
            const TABLE: &'static Table = &Table {
                name: $name,
                doc: $about,
                order: $order,
                // Any number that no other table has; "TG" in front, so that it is recognised in a dump.
                id: 0x5447_0000 + $order,
                counters: &[$(Counter {
                    name: stringify!($counter),
                    kind: Kind::$kind,
                    format: Format::$format,
                    level: Level::$level,
                    doc: $meaning,
                }),*],
            };

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

tables! {
    /// The worker.
    Main "main" 10 "The worker." {
        summs Counter Integer Debug "Times that the figures of the threads were put together.";
        uptime Counter Duration Info "Seconds since the worker began.";
        sess_conn Counter Integer Info "Connections that were accepted.";
        sess_fail Counter Integer Info "Connections that could not be accepted, for any reason.";
        sess_fail_econnaborted Counter Integer Info "Not accepted: the client had gone already.";
        sess_fail_eintr Counter Integer Info "Not accepted: a signal came.";
        sess_fail_emfile Counter Integer Info "Not accepted: too many open files; raise the limit.";
        sess_fail_ebadf Counter Integer Info "Not accepted: the listening socket was closed.";
        sess_fail_enomem Counter Integer Info "Not accepted: the system had no memory.";
        sess_fail_other Counter Integer Info "Not accepted: any other reason.";
        client_req_400 Counter Integer Info "Requests that were answered with 400 as they could not be understood.";
        client_req_417 Counter Integer Info "Requests that were answered with 417 for their Expect.";
        client_req Counter Integer Info "Requests of clients that could be understood.";
        esi_req Counter Integer Info "Requests for parts of ESI documents.";
        cache_hit Counter Integer Info "Requests that an object of the cache answered.";
        cache_hit_grace Counter Integer Info "Of these, by an object whose TTL was over.";
        cache_hitpass Counter Integer Info "Requests that a hit-for-pass object let pass.";
        cache_hitmiss Counter Integer Info "Requests that a hit-for-miss object let miss.";
        cache_miss Counter Integer Info "Requests for which the cache had nothing.";
        beresp_uncacheable Counter Integer Info "Responses of backends that may not be cached.";
        beresp_shortlived Counter Integer Info "Responses that live shorter than the parameter shortlived says.";
        backend_conn Counter Integer Info "Connections to backends that were opened.";
        backend_unhealthy Counter Integer Info "Fetches that were not tried as their backend is sick.";
        backend_busy Counter Integer Info "Fetches that were not tried as their backend has max_connections.";
        backend_fail Counter Integer Info "Connections to backends that could not be opened.";
        backend_reuse Counter Integer Info "Fetches over a connection that was open already.";
        backend_recycle Counter Integer Info "Connections to backends that were kept for more.";
        backend_retry Counter Integer Info "Fetches that were sent again as a kept connection had been closed.";
        fetch_head Counter Integer Info "Fetches without a body: HEAD.";
        fetch_length Counter Integer Info "Fetches with a body of a known length.";
        fetch_chunked Counter Integer Info "Fetches with a body in chunks.";
        fetch_eof Counter Integer Info "Fetches with a body up to the connection's end.";
        fetch_bad Counter Integer Info "Fetches whose body has no clear length.";
        fetch_none Counter Integer Info "Fetches with an empty body.";
        fetch_1xx Counter Integer Info "Fetches without a body: 1xx.";
        fetch_204 Counter Integer Info "Fetches without a body: 204.";
        fetch_304 Counter Integer Info "Fetches without a body: 304.";
        fetch_failed Counter Integer Info "Fetches that failed, for any reason.";
        fetch_no_thread Counter Integer Info "Fetches that failed as no thread was free.";
        pools Gauge Integer Info "Groups of threads.";
        threads Gauge Integer Info "Threads.";
        threads_limited Counter Integer Info "Times that a thread was wanted beyond the greatest number of them.";
        threads_created Counter Integer Info "Threads that were started.";
        threads_destroyed Counter Integer Info "Threads that ended.";
        threads_failed Counter Integer Info "Threads that could not be started.";
        thread_queue_len Gauge Integer Info "Sessions that wait for a thread.";
        busy_sleep Counter Integer Info "Requests that began to wait for another one's fetch.";
        busy_wakeup Counter Integer Info "Requests that went on after such a wait.";
        busy_killed Counter Integer Info "Requests that were given up while they waited so.";
        sess_queued Counter Integer Info "Sessions that had to wait for a thread.";
        sess_dropped Counter Integer Info "Sessions that were closed as too many waited for a thread.";
        req_dropped Counter Integer Info "Requests that were dropped as too many waited for a thread.";
        n_object Gauge Integer Info "Objects in the cache.";
        n_vampireobject Gauge Integer Diag "Objects of a persistent storage that were not looked at yet.";
        n_objectcore Gauge Integer Info "Entries of objects, with those that are being fetched.";
        n_objecthead Gauge Integer Info "Different keys of objects.";
        n_backend Gauge Integer Info "Backends.";
        n_expired Counter Integer Info "Objects that went as their time was over.";
        n_lru_nuked Counter Integer Info "Objects that went as their storage was full.";
        n_lru_moved Counter Integer Diag "Objects that were marked as used lately.";
        n_lru_limited Counter Integer Info "Times that more objects than nuke_limit would have had to go for one.";
        losthdr Counter Integer Info "Header fields that were dropped as there were too many.";
        s_sess Counter Integer Info "Sessions.";
        n_pipe Gauge Integer Info "Pipes that are open.";
        pipe_limited Counter Integer Info "Pipes that were refused by pipe_sess_max.";
        s_pipe Counter Integer Info "Pipes.";
        s_pass Counter Integer Info "Requests that passed.";
        s_fetch Counter Integer Info "Fetches from backends.";
        s_bgfetch Counter Integer Info "Of these, fetches that no client waited for.";
        s_synth Counter Integer Info "Answers that were made here.";
        s_req_hdrbytes Counter Bytes Info "Bytes of requests' heads.";
        s_req_bodybytes Counter Bytes Info "Bytes of requests' bodies.";
        s_resp_hdrbytes Counter Bytes Info "Bytes of responses' heads.";
        s_resp_bodybytes Counter Bytes Info "Bytes of responses' bodies.";
        s_pipe_hdrbytes Counter Bytes Info "Bytes of heads of requests that became pipes.";
        s_pipe_in Counter Bytes Info "Bytes from clients through pipes.";
        s_pipe_out Counter Bytes Info "Bytes to clients through pipes.";
        sess_closed Counter Integer Info "Sessions that ended well.";
        sess_closed_err Counter Integer Info "Sessions that ended with an error.";
        sess_readahead Counter Integer Info "Requests of which a part had come with the one before.";
        sess_herd Counter Integer Diag "Sessions that were put aside as their client was silent.";
        sc_rem_close Counter Integer Diag "Ended well: the client closed.";
        sc_req_close Counter Integer Diag "Ended well: the client asked for it.";
        sc_req_http10 Counter Integer Diag "Ended by error: HTTP/1.0 that cannot go on.";
        sc_rx_bad Counter Integer Diag "Ended by error: a request that could not be understood.";
        sc_rx_body Counter Integer Diag "Ended by error: the body did not come.";
        sc_rx_junk Counter Integer Diag "Ended by error: no HTTP.";
        sc_rx_overflow Counter Integer Diag "Ended by error: a request that was too large.";
        sc_rx_timeout Counter Integer Diag "Ended by error: a request that did not come in time.";
        sc_rx_close_idle Counter Integer Diag "Ended by error: silent for too long.";
        sc_tx_pipe Counter Integer Diag "Ended well: after a pipe.";
        sc_tx_error Counter Integer Diag "Ended by error: the response could not be sent.";
        sc_tx_eof Counter Integer Diag "Ended well: the response ended with the connection.";
        sc_resp_close Counter Integer Diag "Ended well: the response said so.";
        sc_overload Counter Integer Diag "Ended by error: too many sessions.";
        sc_pipe_overflow Counter Integer Diag "Ended by error: too many pipes.";
        sc_range_short Counter Integer Diag "Ended by error: fewer bytes than the range promised.";
        sc_req_http20 Counter Integer Diag "Ended by error: HTTP/2 that was not wanted.";
        sc_vcl_failure Counter Integer Diag "Ended by error: VCL failed.";
        client_resp_500 Counter Integer Diag "Answers that could not be made for want of workspace.";
        ws_backend_overflow Counter Integer Diag "Times that the workspace of a fetch was too small.";
        ws_client_overflow Counter Integer Diag "Times that the workspace of a request was too small.";
        ws_thread_overflow Counter Integer Diag "Times that the workspace of a thread was too small.";
        ws_session_overflow Counter Integer Diag "Times that the workspace of a session was too small.";
        shm_records Counter Integer Diag "Records in the log.";
        shm_writes Counter Integer Diag "Batches of records in the log.";
        shm_flushes Counter Integer Diag "Batches that went out early as their buffer was full.";
        shm_cont Counter Integer Diag "Times that a thread waited for another one to write the log.";
        shm_cycles Counter Integer Diag "Times that the log began anew at its beginning.";
        backend_req Counter Integer Info "Requests to backends.";
        n_vcl Gauge Integer Info "VCLs that are loaded.";
        n_vcl_avail Gauge Integer Diag "VCLs that can be used.";
        n_vcl_discard Gauge Integer Diag "VCLs that were discarded and are still in use.";
        vcl_fail Counter Integer Info "Times that VCL failed.";
        bans Gauge Integer Info "Bans in the list.";
        bans_completed Gauge Integer Diag "Bans that all objects were tested against.";
        bans_obj Gauge Integer Diag "Bans on obj.* alone, which need no request.";
        bans_req Gauge Integer Diag "Bans on req.*.";
        bans_added Counter Integer Diag "Bans that were made.";
        bans_deleted Counter Integer Diag "Bans that were removed.";
        bans_tested Counter Integer Diag "Tests of objects against bans, at a request.";
        bans_obj_killed Counter Integer Diag "Objects that a ban removed, at a request.";
        bans_lurker_tested Counter Integer Diag "Tests of objects against bans, by the lurker.";
        bans_tests_tested Counter Integer Diag "Single conditions that were tested, at a request.";
        bans_lurker_tests_tested Counter Integer Diag "Single conditions that were tested, by the lurker.";
        bans_lurker_obj_killed Counter Integer Diag "Objects that a ban removed, by the lurker.";
        bans_lurker_obj_killed_cutoff Counter Integer Diag "Objects that the lurker removed as they were beyond ban_cutoff.";
        bans_dups Counter Integer Diag "Bans that a later equal one made needless.";
        bans_lurker_contention Counter Integer Diag "Times that the lurker waited for a request.";
        bans_persisted_bytes Gauge Bytes Diag "Bytes of lists of bans on disk.";
        bans_persisted_fragmentation Gauge Bytes Diag "Of these, bytes of bans that are done.";
        n_purges Counter Integer Info "Purges.";
        n_obj_purged Counter Integer Info "Objects that were purged.";
        exp_mailed Counter Integer Diag "Objects that were handed to the expiry.";
        exp_received Counter Integer Diag "Objects that the expiry took.";
        hcb_nolock Counter Integer Debug "Lookups that needed no lock.";
        hcb_lock Counter Integer Debug "Lookups that needed a lock.";
        hcb_insert Counter Integer Debug "Keys that were added.";
        esi_errors Counter Integer Diag "ESI documents with errors.";
        esi_warnings Counter Integer Diag "ESI documents with warnings.";
        vmods Gauge Integer Info "VCL modules that are loaded.";
        n_gzip Counter Integer Info "Bodies that were compressed.";
        n_gunzip Counter Integer Info "Bodies that were decompressed.";
        n_test_gunzip Counter Integer Info "Compressed bodies of backends that were checked.";
    }

    /// The managing process.
    Mgt "mgt" 20 "The managing process." {
        uptime Counter Duration Info "Seconds since the managing process began.";
        child_start Counter Integer Diag "Times that the worker was started.";
        child_exit Counter Integer Diag "Times that the worker ended as it was told to.";
        child_stop Counter Integer Diag "Times that the worker ended by itself.";
        child_died Counter Integer Diag "Times that a signal ended the worker.";
        child_dump Counter Integer Diag "Times that the worker left a core dump.";
        child_panic Counter Integer Diag "Times that the worker ended by a fault of the program.";
    }

    /// A storage in memory: `SMA.<name>`.
    Sma "sma" 40 "A storage in memory: SMA.<name>." {
        c_req Counter Integer Info "Requests for memory.";
        c_fail Counter Integer Info "Requests for memory that failed.";
        c_bytes Counter Bytes Info "Bytes that were given out.";
        c_freed Counter Bytes Info "Bytes that came back.";
        g_alloc Gauge Integer Info "Pieces that are in use.";
        g_bytes Gauge Bytes Info "Bytes that are in use.";
        g_space Gauge Bytes Info "Bytes that are free.";
    }

    /// A storage in a file: `SMF.<name>`.
    Smf "smf" 50 "A storage in a file: SMF.<name>." {
        c_req Counter Integer Info "Requests for memory.";
        c_fail Counter Integer Info "Requests for memory that failed.";
        c_bytes Counter Bytes Info "Bytes that were given out.";
        c_freed Counter Bytes Info "Bytes that came back.";
        g_alloc Gauge Integer Info "Pieces that are in use.";
        g_bytes Gauge Bytes Info "Bytes that are in use.";
        g_space Gauge Bytes Info "Bytes that are free.";
        g_smf Gauge Integer Info "Pieces, used and free.";
        g_smf_frag Gauge Integer Info "Small free pieces.";
        g_smf_large Gauge Integer Info "Large free pieces.";
    }

    /// A backend: `VBE.<vcl>.<name>`.
    Vbe "vbe" 60 "A backend: VBE.<vcl>.<name>." {
        happy Bitmap Bitmap Info "Results of the last probes, a bit for each, the latest in the lowest one.";
        bereq_hdrbytes Counter Bytes Info "Bytes of requests' heads.";
        bereq_bodybytes Counter Bytes Info "Bytes of requests' bodies.";
        beresp_hdrbytes Counter Bytes Info "Bytes of responses' heads.";
        beresp_bodybytes Counter Bytes Info "Bytes of responses' bodies.";
        pipe_hdrbytes Counter Bytes Info "Bytes of heads of requests that became pipes.";
        pipe_out Counter Bytes Info "Bytes to the backend through pipes.";
        pipe_in Counter Bytes Info "Bytes from the backend through pipes.";
        conn Gauge Integer Info "Connections that are in use.";
        req Counter Integer Info "Requests that were sent.";
        unhealthy Counter Integer Info "Fetches that were not tried as it is sick.";
        busy Counter Integer Info "Fetches that were not tried as it has max_connections.";
        fail Counter Integer Info "Connections that could not be opened.";
        fail_eacces Counter Integer Diag "Not opened: not allowed.";
        fail_eaddrnotavail Counter Integer Diag "Not opened: no local address or port.";
        fail_econnrefused Counter Integer Diag "Not opened: refused.";
        fail_enetunreach Counter Integer Diag "Not opened: no way to its network.";
        fail_etimedout Counter Integer Diag "Not opened: no answer in time.";
        fail_other Counter Integer Diag "Not opened: any other reason.";
        helddown Counter Integer Diag "Connections that were not tried as one had just failed.";
    }

    /// Locks of a kind: `LCK.<name>`.
    Lck "lck" 70 "Locks of a kind: LCK.<name>." {
        creat Counter Integer Debug "Locks that were made.";
        destroy Counter Integer Debug "Locks that were taken away.";
        locks Counter Integer Debug "Times that such a lock was taken.";
        dbg_busy Counter Integer Debug "Times that somebody waited for it.";
        dbg_try_fail Counter Integer Debug "Times that somebody gave up as it was taken.";
    }
}
