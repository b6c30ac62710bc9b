# Raises a shield for CPU 1, inspects, disturbs and lowers it; then kills it while it is raised or lowered. The
# machine's state goes to snapshots.
. /vm/recording.sh

mount -t debugfs none /sys/kernel/debug
mount -t cgroup2 none /sys/fs/cgroup
cpus=/sys/devices/system/cpu
group=/sys/fs/cgroup/sordino.shield
store=/run/sordino
RANDOM=$STORM_SEED

# Runs `sordino shield $2...`; its exit status and its output go to $1.status, $1.json and $1.errors.
shield() {
    said=$1
    shift
    status=0
    sordino shield "$@" --json >"$said.json" 2>"$said.errors" || status=$?
    echo $status >"$said.status"
    echo "$said: status $status, $(cut -d ' ' -f 1 /proc/uptime) s"
}

up="up --cpus 1 --level full --measure"

# Writes all that a shield may change to $1, as lines FILE:LINE. For threads: their CPUs, their group, and their
# properties. Some files do not exist everywhere, and threads end.
snapshot() {
    grep -s -H '' /proc/irq/default_smp_affinity /proc/irq/*/smp_affinity_list \
        /sys/devices/virtual/workqueue/cpumask /sys/devices/virtual/workqueue/*/cpumask \
        /sys/class/net/*/queues/*/rps_cpus /sys/kernel/rcu_normal /sys/kernel/rcu_expedited \
        /proc/sys/kernel/sched_* /proc/sys/kernel/timer_migration /proc/sys/kernel/numa_balancing \
        /proc/sys/kernel/*watchdog* /proc/sys/vm/stat_interval \
        /sys/kernel/debug/sched/fair_server/*/* /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/ksm/run \
        $cpus/online $cpus/cpu*/power/pm_qos_resume_latency_us $cpus/cpu*/cpufreq/scaling_governor \
        /sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/others/cpuset.* \
        /proc/[0-9]*/task/[0-9]*/cgroup /proc/[0-9]*/task/[0-9]*/stat >"$1" || true
    grep -s -H '^Cpus_allowed_list' /proc/[0-9]*/task/[0-9]*/status >>"$1" || true
    for directory in $store /sys/kernel/tracing/instances /sys/fs/cgroup; do
        [ ! -d $directory ] ||
            find $directory -mindepth 1 -maxdepth 1 \( -type d -o -path "$store/*" \) | sed 's/$/:there/' >>"$1"
    done
}

# Writes the CPUs of the threads of the processes $2..., sampled often, to $1. Those that spin do so only meanwhile:
# emulated CPUs are slow.
whereabouts() {
    file=$1
    shift
    kill -CONT "$@"
    for _ in 1 2 3 4 5 6; do
        for process in "$@"; do
            cut -d ' ' -f 39 "/proc/$process/task"/*/stat
        done
        sleep 0.02
    done >"$file"
}

mkdir /sys/fs/cgroup/others
# Programs that exist before the shield: some may use all CPUs, and some have chosen theirs, one even the CPU to be
# shielded.
spin="while :; do :; done"
sh -c "$spin" &
spinning=$!
sh -c "$spin" &
spinning="$spinning $!"
# The lists are separate words on purpose, here and below.
# shellcheck disable=SC2086
renice -n 19 -p $spinning
for mask in 1 2 3; do
    taskset $mask sleep 1000 &
    taskset $mask sleep 1000 &
    echo $! >/sys/fs/cgroup/others/cgroup.procs
done
cp /proc/cmdline command-line
# On an emulated machine, the kernel needs a while to give each a CPU.
tries=0
until [ $tries -ge 50 ] || [ "$(cat spinning.before 2>/dev/null | sort -u | wc -l)" -eq 2 ]; do
    # shellcheck disable=SC2086
    whereabouts spinning.before $spinning
    tries=$((tries + 1))
done
# shellcheck disable=SC2086
kill -STOP $spinning
snapshot before

shield plan plan --cpus 1 --level full
snapshot planned
# shellcheck disable=SC2086
shield up $up 100ms
snapshot raised
steps=$(wc -l <$store/shield.journal)
shield status status
cp $group/cpuset.cpus.partition partition
cat /sys/fs/cgroup/cpuset.cpus.isolated >isolated || rm isolated
# shellcheck disable=SC2086
whereabouts spinning.raised $spinning
# shellcheck disable=SC2086
kill -STOP $spinning
sordino shield run --prio 50 -- sh -c "$spin" &
shielded=$!
# The thread is in the shield once it has its policy.
until [ "$(cut -d ' ' -f 41 /proc/$shielded/stat)" -eq 1 ]; do sleep 0.02; done
whereabouts shielded $shielded
cut -d ' ' -f 40,41 /proc/$shielded/stat >policy
kill -9 $shielded
# shellcheck disable=SC2086
shield again $up 0s

inside="sordino shield run --"
begin recording "" calm --subbuf-size 256K --num-subbuf 4 --kernel sched_switch
whereabouts collector $recorder
end

# Another program changes settings of the shield. The keyboard's interrupt exists and can be moved.
echo 1 >/proc/irq/1/smp_affinity_list
shield drift-interrupt status
echo 0 >/proc/irq/1/smp_affinity_list
shield repaired status
echo member >$group/cpuset.cpus.partition
shield drift-partition status

# Processes that outlive the shield: one inside, one outside.
sordino shield run -- sleep 1000 &
echo $! >inside
sleep 1000 &
echo $! >outside
until grep -q . $group/cgroup.procs; do sleep 0.02; done
shield down down
snapshot lowered
shield no-status status
shield no-down down

# `up` is killed when its journal has some lines.
for kill in 1 2; do
    # shellcheck disable=SC2086
    sordino shield $up 0s >/dev/null 2>&1 &
    raising=$!
    wanted=$((RANDOM % steps))
    lines=-1
    while [ $lines -lt $wanted ] && kill -0 $raising 2>/dev/null; do
        # The process needs CPU 0, too.
        sleep 0.01
        lines=-1
        [ ! -e $store/shield.journal ] || while read -r _; do lines=$((lines + 1)); done <$store/shield.journal
    done
    kill -9 $raising || true
    wait $raising || true
    snapshot killed-$kill.dead
    shield killed-$kill status
    [ ! -e $store/shield.journal ] || shield killed-$kill.down down
    snapshot killed-$kill.settled
done

# `down` is killed when it has begun.
# shellcheck disable=SC2086
shield killed-down.up $up 0s
sordino shield down >/dev/null 2>&1 &
lowering=$!
while [ -e $store/shield.json ]; do :; done
kill -9 $lowering || true
wait $lowering || true
shield killed-down status
[ ! -e $store/shield.journal ] || shield killed-down.down down
snapshot killed-down.settled
