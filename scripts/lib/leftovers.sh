# Prints the state of the machine that tests could leave changed, as one line of text.

leftovers() {
    printf 'throttle=%s ' "$(cat /proc/sys/kernel/sched_rt_runtime_us)"
    printf 'shm=%s ' "$(find /dev/shm -maxdepth 1 -name 'sordino*' 2>/dev/null | wc -l)"
    printf 'mounts=%s ' "$(wc -l </proc/self/mounts)"
    printf 'processes=%s ' "$(pgrep -c '^sordino' || true)"
    printf 'shield=%s ' "$(find /run/sordino 2>/dev/null | wc -l)"
    printf 'instances=%s' "$(instances)"
}

# Tracefs may be mounted nowhere. Then only the tests can have made instances.
instances() {
    for mount in $(awk '$3 == "tracefs" { print $2 }' /proc/self/mounts); do
        find "$mount/instances" -maxdepth 1 -name 'sordino*' 2>/dev/null
    done | wc -l
}
