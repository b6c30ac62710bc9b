# Recordings of a storm (tests/programs/storms.c), for scenarios. $STORM_SEED comes from the host.

# Options for small rings, which lose records or overwrite them.
small="--subbuf-size 16K --num-subbuf 2"

# Indices of the storm's words behind two for each of 1024 lanes: its pid, one that stops it, and one that lets it
# begin.
pid=2048 stop=2049 go=2050

# Prefix of the command that runs the storm.
inside=""

# Begins to record a storm into the directory $1, in the rings $2 (as SORDINO_RING), with the loads $3 and the options
# that follow. The storm runs until `end`.
begin() {
    name=$1 ring=$2 loads=$3
    shift 3
    mkdir "$name"
    STORM_SEED=$((STORM_SEED + 1))
    echo $STORM_SEED >"$name/seed"
    truncate -s $((8 * (go + 1))) "$name/shared"
    # The prefix and the loads are separate words on purpose.
    # shellcheck disable=SC2086
    SORDINO_RING=$ring sordino record --json -o "$name/trace" --collector-prio 20 "$@" -- \
        $inside storms $STORM_SEED 60000 "$name/shared" /vm/verified_plugin.so $loads >"$name/output" 2>"$name/errors" &
    recorder=$!
    while [ "$(od -A n -t u4 -j $((8 * pid)) -N 4 "$name/shared")" -eq 0 ]; do
        kill -0 $recorder || { cat "$name/errors" && return 1; }
        sleep 0.02
    done
    # Emulated CPUs are slow. A program waits two seconds for a recorder without a CPU, then continues, and counts its
    # hits as unanswered.
    chrt -f -p 20 $recorder
    set_word $go
}

# Sets a word of the storm's file to 1.
set_word() {
    printf '\001' | dd of="$name/shared" bs=1 seek=$((8 * $1)) conv=notrunc 2>/dev/null
}

# Ends the storm and its recording.
end() {
    set_word $stop
    status=0
    wait $recorder || status=$?
    echo $status >"$name/status"
    echo "$name: status $status, $(cut -d ' ' -f 1 /proc/uptime) s"
}
