#!/bin/sh
# Starts Slurm with three nodes on this machine: n1, n2 and n3. Prints "ready" when they are idle,
# and ends all of it, with its jobs, when standard input closes. Needs Debian's slurm-wlm.
#
#     start.sh DIR CONTROLLER_PORT PORT_OF_N1 PORT_OF_N2 PORT_OF_N3
#
# The configuration is DIR/slurm.conf; clients find it by the variable SLURM_CONF.
set -eu
dir=$1
user=$(id -un)
host=$(hostname -s)
mkdir -p "$dir/state" "$dir/spool" "$dir/log"
cat >"$dir/slurm.conf" <<CONF
ClusterName=tests
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$2
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd.%n
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3 CPUs=64
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$4 CPUs=64
NodeName=n3 NodeHostname=$host NodeAddr=127.0.0.1 Port=$5 CPUs=64
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF="$dir/slurm.conf"

daemons=
is_ready=
# Waits until a command succeeds, for at most 3 s.
until_true() {
    tries=0
    until "$@" || [ "$tries" -ge 30 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}
has_no_jobs() {
    [ -z "$(squeue --noheader 2>/dev/null)" ]
}
have_ended() {
    for daemon in $daemons; do
        if kill -0 "$daemon" 2>/dev/null; then
            return 1
        fi
    done
}
end() {
    squeue --noheader --format %A 2>/dev/null | while read -r job; do
        scancel --full --signal=KILL "$job" 2>/dev/null || true
        scancel "$job" 2>/dev/null || true
    done
    # A step that ends after the controller waits for it.
    until_true has_no_jobs
    for daemon in $daemons; do
        kill -TERM "$daemon" 2>/dev/null || true
    done
    until_true have_ended
    for daemon in $daemons; do
        kill -KILL "$daemon" 2>/dev/null || true
    done
    # What the daemons said may explain why they did not start.
    if [ -n "$is_ready" ]; then
        rm -rf "$dir"
    fi
}
trap end EXIT

slurmctld -D -i >"$dir/log/slurmctld.out" 2>&1 </dev/null &
daemons="$daemons $!"
for node in n1 n2 n3; do
    slurmd -D -N "$node" >"$dir/log/slurmd.$node.out" 2>&1 </dev/null &
    daemons="$daemons $!"
done
tries=0
until [ "$(sinfo --noheader --format '%T %D' 2>/dev/null)" = "idle 3" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ]; then
        echo "the nodes did not become idle within 60 s; see $dir/log" >&2
        exit 1
    fi
    sleep 0.1
done
is_ready=1
echo ready
# Ends when the other end of the pipe is closed, however its process ends.
cat >/dev/null
