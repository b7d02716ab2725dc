# Plays a unit of Redis' cluster suite against a cluster that `run` starts. Sourced in the suite's folder tests/cluster.
#
# The suite starts twenty servers, has them meet and deals the slots out. Here a cluster of the same shape is started instead,
# with its agent; servers that a test kills are started again when the agent is told so. A test that fails does not end its unit.

set unit [lindex $argv 0]
set starter $::env(STARTER)
set argv {}
source cluster.tcl
source ../instances.tcl
source ../../support/cluster.tcl

rename source source_file
proc source {file} {
    if {[string match "*init-tests.tcl" $file]} { return }
    uplevel 1 [list source_file $file]
}

proc test {name code} {
    if {[catch {uplevel 1 $code} error]} {
        set error [string map {"\n" " "} [string range $error 0 400]]
        puts "\[err\]: $name\n$error"
    } else {
        puts "\[ok\]: $name"
    }
    flush stdout
}

# The starter prints a line for each server: its port and its process. The first are masters, the others their replicas in turns.
proc start_shape {masters replicas} {
    set ::redis_instances {}
    foreach line [split [string trim [exec $::starter up $masters $replicas 2>@stderr]] "\n"] {
        lassign $line port pid
        set link [redis 127.0.0.1 $port 0 0]
        $link reconnect 1
        lappend ::redis_instances [list pid $pid host 127.0.0.1 port $port plaintext-port 0 link $link]
    }
    set ::cluster_master_nodes $masters
    set ::cluster_replica_nodes $replicas
    assert_cluster_state ok
}

proc create_cluster {masters replicas} { start_shape $masters $replicas }
proc cluster_create_with_continuous_slots {masters replicas} { start_shape $masters $replicas }

proc kill_instance {type id} {
    exec $::starter kill [get_instance_attrib $type $id port]
    set_instance_attrib $type $id pid -1
    set_instance_attrib $type $id link you_tried_to_talk_with_killed_instance
}

proc restart_instance {type id} {
    set port [get_instance_attrib $type $id port]
    set_instance_attrib $type $id pid [exec $::starter restart $port]
    set link [redis 127.0.0.1 $port 0 0]
    $link reconnect 1
    set_instance_attrib $type $id link $link
}

if {[catch {source_file $unit} error]} {
    puts "\[exception\]: [string map {"\n" " "} $error]"
}
puts "The End"
exit 0
