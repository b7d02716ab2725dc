//! Files: the core's directives, `autoindex`, `index`, `gzip_static`.

use super::{Directive, backend, global, says};

pub(super) const DIRECTIVES: &[Directive] = &[
    backend(
        "root",
        "the same: a folder that answers requests. It may have a condition.",
        "root /srv/www unless { path_end .php }",
    ),
    backend(
        "alias",
        "the same, with the path that it is for in front. Whole names are compared, so none leads out of the folder.",
        "alias /images/ /srv/pictures",
    ),
    backend("index", "the same.", "index index.html index.htm"),
    backend(
        "try_files",
        "`try-files`, with the same words: `$uri`, `$uri/`, `$args`, `=404`. Instead of `@name`, the last path is asked of the lines again; what no `root` line is for goes to the servers.",
        "root /srv/www\ntry-files $uri $uri/ /index.html",
    ),
    backend(
        "autoindex",
        "the same. A page that sorts and filters; programs get JSON or text by `Accept` or `?format=json`.",
        "autoindex on if { path_beg /pub/ }",
    ),
    says("autoindex_format", "the client chooses: `?format=json`, `?format=text`, or `Accept`. JSON is nginx' own."),
    says(
        "autoindex_exact_size autoindex_localtime",
        "sizes are readable, the exact one is shown beside; times are those of whoever looks.",
    ),
    backend(
        "types",
        "`mime-type`, or a file in nginx' own format.",
        "mime-types /etc/nginx/mime.types\nmime-type text/x-log log",
    ),
    backend(
        "default_type",
        "`application/octet-stream`; `http-response set-header` changes it by condition.",
        "http-request set-var(txn.path) path\nhttp-response set-header content-type text/plain if { var(txn.path) -m beg /logs/ }",
    ),
    backend(
        "charset charset_types",
        "`charset`: it goes with `text/...` types, and is utf-8 unless this says otherwise.",
        "charset iso-8859-1",
    ),
    backend("expires", "the same, with a condition instead of a `location`.", "expires 30d if { path_end .css .js }"),
    says(
        "etag if_modified_since",
        "every file has an entity tag, the same as nginx', and `Last-Modified`. `If-Modified-Since` is asked for \"before\", as RFC 9110 says; nginx asks for the very time. A file that has changed within two seconds has a weak tag.",
    ),
    says(
        "max_ranges",
        "at most 100 ranges. More, those that overlap to more than the file, and malformed ones are answered with the whole file; nginx answers malformed ones by 416.",
    ),
    backend(
        "gzip_static brotli_static",
        "`precompressed`: `.br`, `.zst` and `.gz` beside a file, if they are not older.",
        "precompressed br gzip",
    ),
    backend(
        "open_file_cache open_file_cache_valid open_file_cache_min_uses",
        "`open-file-cache`: each worker's, on unless this says otherwise.",
        "open-file-cache max 10000 memory 64m valid 5s",
    ),
    says("open_file_cache_errors", "files that are not there are looked for each time."),
    backend(
        "disable_symlinks",
        "`symlinks`: links that stay within the folder are followed, unless this says `deny` or `follow`.",
        "symlinks deny",
    ),
    backend(
        "error_page",
        "`errorfile`, `http-error` and `errorfiles`: pages by status. They are for errors of the proxy and of files; answers of servers stay, but for `http-response return`.",
        "http-error status 404 content-type text/plain string \"not here\"",
    ),
    says("recursive_error_pages", "an error page is no request."),
    global(
        "aio sendfile sendfile_max_chunk directio directio_alignment read_ahead aio_write output_buffers",
        "not needed: files in memory go out at once, large ones by `sendfile` in turns; what is not in memory is read by threads of their own, so no worker waits for a disk.",
        "tune.disk-threads 32",
    ),
    says("log_not_found", "the access log says 404; nothing is written twice."),
    says("random_index empty_gif", "not here: `http-request return` answers with a file or a text."),
    says(
        "mp4 flv mp4_buffer_size mp4_max_buffer_size mp4_start_key_frame",
        "not here: files are sent in ranges, which players ask for.",
    ),
    says(
        "dav_methods dav_access create_full_put_path min_delete_depth dav_ext_methods",
        "not here: files are read only. A server behind a path can write them.",
    ),
];
