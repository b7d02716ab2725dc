"""What differs between two runs of the same program is taken out of what was recorded."""

import re

# Measured times and what follows from them; numbers of processes; what a server said in words of the system.
STAT_LEFT_OUT = {
    "pid", "lastchg", "downtime", "check_duration", "agent_duration", "qtime", "ctime", "rtime", "ttime", "qtime_max",
    "ctime_max", "rtime_max", "ttime_max", "rate", "rate_max", "req_rate", "req_rate_max", "conn_rate", "conn_rate_max",
    "lastsess", "throttle", "chkfail", "chkdown", "check_rise", "check_health",
    # Estimates that follow the clock.
    "need_conn_est", "srv_icur", "safe_conn_cur", "idle_conn_cur",
    # What the check that is under way has not found out yet.
    "check_code", "check_status", "last_chk",
    # A client that has just closed may still be counted.
    "smax",
}
# Columns of HAProxy's own multiplexers, which there are none of in Tidegate.
STAT_INTERNAL = re.compile(r"^(ssl|h1|h2)_")

ACCEPTED = re.compile(r"\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(\.\d+)?\]")
SYSLOG = re.compile(r"^(<\d+>)[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (\S+ )?(\S+?)\[\d+\]:")
CLIENT = re.compile(r"(\d+\.\d+\.\d+\.\d+):\d{4,5}(?= \[DATE\])")
TIMERS = re.compile(r"(?<= )[-+]?\d+(/[-+]?\d+){2,4}(?= )")
CONNECTIONS = re.compile(r" \d+/\d+/\d+/\d+/(\+?\d+) (?=\d+/\d+)")
CHECKED = re.compile(r"check duration: \d+ms")
TABLE = re.compile(r"^0x[0-9a-f]+: ")


def log_line(line):
    """A line of the log without dates, ports and measured times; that there was no time (-1) stays."""
    line = SYSLOG.sub(r"\1\3[PID]:", line.rstrip("\n\0"))
    line = ACCEPTED.sub("[DATE]", line)
    line = CLIENT.sub(r"\1:PORT", line)
    line = CHECKED.sub("check duration: Nms", line)
    if "[DATE]" in line:
        line = TIMERS.sub(timers, line, count=1)
        # Connections that are just being closed may still be among them; how often it was tried is certain.
        line = CONNECTIONS.sub(r" C/C/C/C/\1 ", line, count=1)
    return line


def timers(found):
    return "/".join(time if time == "-1" else "+N" if time[0] == "+" else "N" for time in found[0].split("/"))


def stat_rows(text):
    """`show stat` as a line for each value that tells something."""
    lines = text.strip().split("\n")
    names = lines[0].removeprefix("# ").rstrip(",").split(",")
    rows = []
    for line in lines[1:]:
        values = dict(zip(names[2:], line.split(",")[2:]))
        who = "/".join(line.split(",")[:2])
        rows += [
            f"{who} {name}={value}"
            for name, value in values.items()
            if value and name not in STAT_LEFT_OUT and not STAT_INTERNAL.match(name)
        ]
    return rows


def table_rows(text):
    """`show table X` sorted by key, without pointers and what is left of a time to live."""
    rows = []
    for line in text.strip().split("\n"):
        line = TABLE.sub("", line)
        line = re.sub(r" exp=\d+", " exp=N", line)
        rows.append(re.sub(r"^# table: (\S+), ", r"# table: \1, ", line))
    return rows[:1] + sorted(rows[1:])


def head_lines(head):
    """A head's lines; names of fields in lower case, as HAProxy writes them where Tidegate keeps what was sent."""
    start, *fields = head.rstrip("\r\n").split("\r\n")
    return [start] + [name.lower() + colon + value for name, colon, value in (field.partition(":") for field in fields)]
