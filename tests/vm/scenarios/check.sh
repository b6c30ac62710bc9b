# Checks the machine with the kernel's tracers, then again, interrupted and killed while they run. The machine's state
# goes to snapshots.
tracing=/sys/kernel/tracing

# Writes all that a check may change or leave to $1.
snapshot() {
    grep -s -H '' $tracing/current_tracer $tracing/tracing_on $tracing/tracing_thresh $tracing/osnoise/* $tracing/hwlat_detector/* \
        $tracing/instances/*/current_tracer /proc/sys/kernel/sched_rt_runtime_us >"$1" || true
    ls -d $tracing/instances/* /run/sordino/* /tmp/* >>"$1" 2>/dev/null || true
    # Processes that it started, and the tracers' threads.
    grep -s -h -E '^(sordino|exe|hackbench|cyclictest|hwlat|osnoise|timerlat)' /proc/[0-9]*/comm >>"$1" || true
}

# Begins to check CPU 1 with the options $2...; `end` leaves the result in $1.
begin() {
    name=$1
    shift
    sordino check --cpus 1 -o "$name" "$@" >"$name.output" 2>"$name.errors" &
    check=$!
}

end() {
    status=0
    wait $check || status=$?
    echo $status >"$name.status"
    # The guardian that restores the changes of a killed check may take a moment.
    for _ in $(seq 50); do
        snapshot "$name.after"
        ! cmp -s before "$name.after" || break
        sleep 0.1
    done
    echo "$name: status $status, $(cut -d ' ' -f 1 /proc/uptime) s"
}

# Sends the signal $1 to the check alone when it runs the tracer $2. The machine's state then goes to a snapshot.
strike() {
    until grep -q -s "^$2" $tracing/instances/*/current_tracer; do
        kill -0 $check || return 1
        sleep 0.1
    done
    sleep 0.7
    snapshot "$name.during"
    kill -"$1" $check
}

# Values that differ from the defaults and from those of a check. A width has to be below its window, and a runtime not
# above its period.
cd $tracing
echo 77 >tracing_thresh
echo 3000000 >hwlat_detector/window
echo 2000000 >hwlat_detector/width
echo 2000000 >osnoise/period_us
echo 1500000 >osnoise/runtime_us
echo 5000 >osnoise/timerlat_period_us
echo 123456 >osnoise/stop_tracing_us
echo 234567 >osnoise/stop_tracing_total_us
echo 0 >osnoise/cpus
cd /results/check
snapshot before

begin whole --duration 2s --max-gap 10s --only system,hardware,npt,osnoise,wake-up,timerlat,preemption,load
end
sordino compare whole whole --json >compared

begin INT-hwlat --duration 60s --only hardware
strike INT hwlat
end
for step in hardware osnoise timerlat; do
    tracer=$(echo $step | sed s/hardware/hwlat/)
    begin KILL-$tracer --duration 60s --only $step
    strike KILL $tracer
    end
done

# A tracer of another program is left alone.
echo function >$tracing/current_tracer
sordino check --cpus 1 --duration 1s --only timerlat --json >refused
cat $tracing/current_tracer >>refused
# The tracer slows everything down, also the following scenarios.
echo nop >$tracing/current_tracer
