# The program of the cache. After a change: systemctl reload tidegate-varnish. man vcl and /usr/share/doc/tidegate describe the language.
vcl 4.1;

# Your application.
backend default {
    .host = "127.0.0.1";
    .port = "8080";
}
