# CPU 1 goes and comes while storms are recorded: in the rings of the CPUs and in the shared one, discarding and overwriting;
# with the kernel's events; and by a recorder that begins while it is away.
. /vm/recording.sh

cpus=/sys/devices/system/cpu

# Switches CPU 1 off (0) or on (1).
cpu1() {
    echo "$1" >$cpus/cpu1/online
    cat $cpus/online >>"$name/online"
    sleep 0.$((RANDOM % 2))
}

# Begins a storm, as `begin` does, and ends it after CPU 1 has gone and come.
storm() {
    begin "$@"
    for _ in 1 2 3; do
        cpu1 0
        cpu1 1
    done
    end
}

# Without `migration`: threads that choose their CPUs while CPUs go make these kernels warn (affine_move_task in
# kernel/sched/core.c), and 6.12.117 stopped once. CPUs that go move threads, too.
all="signals fork vfork exec plugin"
# SCHED_FIFO threads delay the kernel's work on CPUs that go and come, for seconds each time.
storm discard "" "$all fifo" $small --read-timer 1ms
storm overwrite "" "$all" $small --overwrite
storm shared-discard shared "$all" $small --read-timer 1ms
storm shared-overwrite shared "$all" $small --overwrite
storm kernel "" "$all" $small --read-timer 1ms --kernel sched

# Without vfork: only threads on CPU 1 may write to the shared ring.
echo 0 >$cpus/cpu1/online
begin late "" "signals fifo fork plugin" $small --read-timer 1ms --kernel sched
cpu1 1
sleep 0.5
end
