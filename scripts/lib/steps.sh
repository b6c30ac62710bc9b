# Steps of a test run: the present step, its time, and at the end a list of unmeasured things. Source it, then: begin,
# step..., finish.

target=${CARGO_TARGET_DIR:-$PWD/target}
# Files for the whole output, and for a line on each completed step.
log=$target/test.log
steps=$target/test.steps

# Formats seconds as minutes and seconds.
clock() {
    printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

elapsed() {
    clock $(($(date +%s) - began))
}

# Announces the step $1 and its expected time $2.
begin() {
    . scripts/lib/leftovers.sh
    mkdir -p "$target"
    : >"$log"
    : >"$steps"
    run=$1 current="" beside="" began=$(date +%s)
    echo "$run: $2; the whole output goes to $log"
    leftovers_before=$(leftovers)
    trap 'summary $?' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# Runs a command as the step $1. Its output is shown and kept.
step() {
    current=$1
    shift
    echo
    echo "== [$(elapsed)] $current: $*"
    started=$(date +%s)
    # A pipe has the status of its last command.
    { { "$@" 2>&1 && echo 0 >"$log.status" || echo $? >"$log.status"; } | tee -a "$log"; } || true
    status=$(cat "$log.status")
    rm "$log.status"
    echo "$(clock $(($(date +%s) - started))) $current" >>"$steps"
    [ "$status" -eq 0 ] || exit "$status"
    current=""
}

# Starts a command that runs beside the following steps.
beside() {
    echo
    echo "== [$(elapsed)] beside the following steps: $*"
    # A process group of its own allows ending all of its processes.
    setsid "$@" >"$target/beside.log" 2>&1 &
    beside=$!
}

# Waits for that command, as the step $1.
joined() {
    current=$1
    echo
    echo "== [$(elapsed)] $current: the remainder"
    started=$(date +%s) status=0
    wait "$beside" || status=$?
    beside=""
    tee -a "$log" <"$target/beside.log"
    echo "$(clock $(($(date +%s) - started))) $current (the remainder)" >>"$steps"
    [ "$status" -eq 0 ] || exit "$status"
    current=""
}

# Notes that $1 is not checked, with the reason.
not_checked() {
    echo
    echo "not checked here: $1" | tee -a "$log"
}

# Lists the log's reasons for unmeasured things, each once, with the number of tests.
skipped() {
    grep -o 'not \(measured\|checked\) here: .*' "$log" | sed 's/ (in [^ ]*)$//' | sort | uniq -c | sort -rn |
        sed 's/^ *\([0-9]*\) not [a-z]* here: /  \1 x /; s/^  1 x /  /'
}

# Prints the time of each step, the unmeasured things, and the result, with status $1.
summary() {
    trap - EXIT INT TERM
    [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || true
    echo
    echo "== $run took $(elapsed)"
    sed 's/^/  /' "$steps"
    if [ -n "$(skipped)" ]; then
        echo "Not checked here:"
        skipped
    fi
    case $1 in
    0) echo "$run: all tests passed" ;;
    *) echo "$run: ${current:+$current }failed with status $1: see above, or $log" >&2 ;;
    esac
    exit "$1"
}

# Compares the machine with its state at the beginning.
finish() {
    current="the machine afterwards"
    leftovers_after=$(leftovers)
    if [ "$leftovers_before" != "$leftovers_after" ]; then
        echo "The tests left the machine other than they found it:" >&2
        echo "before: $leftovers_before" >&2
        echo "after:  $leftovers_after" >&2
        exit 1
    fi
}
