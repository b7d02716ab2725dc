//! FastCGI and other programs; what is not here.

use super::{Directive, backend, says, sections};

pub(super) const DIRECTIVES: &[Directive] = &[
    sections(
        "fastcgi_pass",
        "an `fcgi-app` section as HAProxy has it, `use-fcgi-app` and a `server` line with `proto fcgi` ([Run PHP](run-php.md)).",
        "fcgi-app php\n    docroot /srv/www\n    index index.php\n    path-info ^(/.+\\.php)(/.*)?$\n\nbackend php\n    use-fcgi-app php\n    server fpm /run/php/php-fpm.sock proto fcgi",
    ),
    sections(
        "fastcgi_param",
        "`set-param` in the `fcgi-app` section; the usual ones are set without a line.",
        "fcgi-app php\n    docroot /srv/www\n    set-param APP_ENV str(production)\n\nbackend php\n    use-fcgi-app php\n    server fpm 127.0.0.1:9000 proto fcgi",
    ),
    says("fastcgi_index", "`index` in the `fcgi-app` section."),
    says("fastcgi_split_path_info", "`path-info` in the `fcgi-app` section."),
    says("fastcgi_keep_conn", "`option keep-conn` in the `fcgi-app` section, as it is unless told otherwise."),
    says(
        "fastcgi_pass_header fastcgi_hide_header",
        "`pass-header` in the `fcgi-app` section is for requests; `http-response del-header` for answers.",
    ),
    says(
        "fastcgi_catch_stderr",
        "`log-stderr` in the `fcgi-app` section sends what a program complains about to a log.",
    ),
    backend(
        "uwsgi_pass scgi_pass",
        "`proto uwsgi` or `proto scgi` of a `server` line ([Run PHP](run-php.md)).",
        "server app 127.0.0.1:3031 proto uwsgi",
    ),
    sections(
        "uwsgi_param scgi_param",
        "`set-param` in an `fcgi-app` section, which these servers take, too; the usual ones are set without a section.",
        "fcgi-app app\n    docroot /srv/app\n    set-param APP_ENV str(production)\n\nbackend app\n    use-fcgi-app app\n    server app 127.0.0.1:3031 proto uwsgi",
    ),
    says(
        "uwsgi_modifier1 uwsgi_modifier2",
        "always 0 (WSGI, PSGI, Rack): what other numbers mean is said to uWSGI itself.",
    ),
];

pub(super) const NOT_HERE: &[Directive] = &[
    says("auth_request auth_request_set", "not here. `jwt_verify` checks tokens, `http_auth` passwords."),
    says(
        "secure_link secure_link_md5 secure_link_secret",
        "a rule that computes the digest: `url_param(md5)` compared with `path,concat(...),digest(md5)`.",
    ),
    says(
        "image_filter xml_entities xslt_stylesheet perl perl_modules js_import js_content lua_code_cache content_by_lua",
        "not here: a server behind a path does such work.",
    ),
    says(
        "stream mail ssl_preread smtp_auth imap_capabilities",
        "`mode tcp` proxies streams, and `req.ssl_sni` chooses by the name in a TLS greeting; mail is not spoken.",
    ),
    says("geoip_country geoip_city geoip_org", "not here: a map file of networks, and `map_ip`."),
];
