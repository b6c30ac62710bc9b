//! State that root keeps on the machine: sessions in `/run`, journals, a group's tracing instances, temporary
//! directories.

use sordino_tests::{EndedProcess, Sandbox, Scene};

const ATTACK: &str = env!("CARGO_BIN_EXE_attack_machine");

/// Runs a script as [`Sandbox::run`] does, with `$TMPDIR` in the sandbox and a command `hang` that kills commands after
/// 30 seconds.
fn run(scene: &Scene, script: &str) -> EndedProcess {
    let prologue = "
        umask 0
        mkdir -m 1777 \"$SCENE/tmp\" 2>/dev/null || true
        export TMPDIR=$SCENE/tmp
        bounded() { timeout -s KILL 30 \"$@\"; }
        victim() { rm -f \"$SCENE/victim\"; echo untouched >\"$SCENE/victim\"; chmod 600 \"$SCENE/victim\"; }
    ";
    Sandbox::new(scene, ATTACK).run(&format!("{prologue}{script}"))
}

/// Returns the lines of a script's output that begin with `word`, without that word.
fn lines<'a>(ended: &'a EndedProcess, word: &str) -> Vec<&'a str> {
    ended.output.lines().filter_map(|line| line.strip_prefix(word)).map(str::trim).collect()
}

#[test]
fn nobody_else_can_open_or_lock_a_file_of_roots_session() {
    let Some(scene) = Scene::new().as_root() else { return };
    let ended = run(
        &scene,
        r#"
        at=/run/sordino/sessions/box
        bounded "$SORDINO" start box --user 'motor:*' >/dev/null
        bounded "$SORDINO" events --follow box >/dev/null &
        until_there $at/follower
        # It is there for some milliseconds at a time.
        i=0; until stat -c 'live %a' $at/live 2>/dev/null || [ $i = 3000 ]; do i=$((i + 1)); done
        find $at -maxdepth 1 -type f -printf 'file %f %m %u\n'
        as_user "$ATTACK" lock /run/sordino $at $at/lock $at/follower $at/log $at/session.json $at/session.new $at/control $at/programs &
        attack=$!
        until_there "$USER_HOME/waiting"
        for step in stop start stop destroy; do
            bounded "$SORDINO" $step box >/dev/null && echo "ended $step" || echo "failed $step: $?"
            [ $step = destroy ] || find $at -maxdepth 1 -type f -printf 'file %f %m %u\n'
        done
        find /run/sordino 2>/dev/null | sed 's/^/left /'
        kill -9 $attack
        "#,
    );
    ended.succeeded();
    assert_eq!(lines(&ended, "opened"), ["/run/sordino/sessions/box"], "{}", ended.output);
    assert_eq!(lines(&ended, "ended"), ["stop", "start", "stop", "destroy"], "{}", ended.output);
    let files = lines(&ended, "file");
    assert!(files.len() >= 3 && files.iter().all(|file| file.ends_with(" 600 root")), "{}", ended.output);
    assert!(files.iter().any(|file| file.starts_with("follower")), "{}", ended.output);
    assert!(lines(&ended, "live").iter().all(|mode| *mode == "700"), "{}", ended.output);
    assert!(lines(&ended, "left").is_empty(), "{}", ended.output);
}

#[test]
fn what_an_older_version_or_somebody_else_left_in_a_session_is_mended_or_refused() {
    let Some(scene) = Scene::new().as_root() else { return };
    let ended = run(
        &scene,
        r#"
        at=/run/sordino/sessions/box
        bounded "$SORDINO" start box --user 'motor:*' >/dev/null
        bounded "$SORDINO" stop box >/dev/null
        chmod 666 $at/lock $at/log $at/session.json
        bounded "$SORDINO" start box >/dev/null
        find $at -maxdepth 1 -type f -printf 'file %f %m %u\n'
        bounded "$SORDINO" stop box >/dev/null
        for file in lock log session.json; do
            for planted in "chown 65534 $at/$file" "ln -sfn $SCENE/victim $at/$file" "ln -f $at/$file /run/second"; do
                victim
                rm -rf "$SCENE/kept"; cp -a $at "$SCENE/kept"
                $planted
                bounded "$SORDINO" start box >/dev/null 2>"$SCENE/reason" || echo "refused $file: $(cat "$SCENE/reason")"
                cmp -s "$SCENE/victim" - <<END || echo "written $file"
untouched
END
                bounded "$SORDINO" stop box >/dev/null 2>&1 || true
                rm -rf $at; cp -a "$SCENE/kept" $at; rm -f /run/second
            done
        done
        bounded "$SORDINO" destroy box
        "#,
    );
    ended.succeeded();
    let files = lines(&ended, "file");
    assert!(files.len() >= 3 && files.iter().all(|file| file.ends_with(" 600 root")), "{}", ended.output);
    let refused = lines(&ended, "refused");
    assert_eq!(refused.len(), 9, "{}\n{}", ended.output, ended.errors);
    assert!(refused.iter().all(|line| line.contains("/run/sordino/sessions/box/")), "{refused:?}");
    assert!(lines(&ended, "written").is_empty(), "{}", ended.output);
}

/// Runs a script whose sandbox has the machine's tracer: a grant is withdrawn in any case. `member` runs a command as a
/// user of the group.
fn traced(scene: &Scene, script: &str) -> Option<EndedProcess> {
    let prologue = r#"
        mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
        instances=/sys/kernel/tracing/instances
        if ls $instances | grep -q '^sordino\.'; then echo 'not measured'; exit; fi
        member() (cd "$USER_HOME" && exec setpriv --reuid 65534 --regid 65534 --groups 3 --inh-caps=-all -- "$@")
        # The files that a member may write, of those that switch an event on.
        writable() { member find -L $instances/sordino.sys.1/events -maxdepth 3 -name enable -writable 2>/dev/null; }
        grants() { bounded "$SORDINO" grant sys --instances 1 "$@" 2>&1; }
        trap '[ -z "$attack" ] || kill -9 $attack 2>/dev/null || true; "$SORDINO" revoke sys --force >/dev/null 2>&1 || "$SORDINO" revoke sys >/dev/null 2>&1 || true' EXIT
        attack=
    "#;
    let ended = run(scene, &format!("{prologue}{script}"));
    if ended.output.starts_with("not measured") {
        Scene::not_measured("a group of this machine's was let trace the kernel");
        return None;
    }
    Some(ended)
}

#[test]
fn a_member_can_enable_the_granted_events_and_no_others() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(ended) = traced(
        &scene,
        r#"
        grants | sed 's/^/said /'
        stat -c 'journal %a %U' /run/sordino/grant.journal
        writable | sed 's|.*/events/|given |'
        other() { echo "other $1 $(member cat $instances/sordino.sys.1/events/$1 2>&1 >/dev/null | grep -c denied)"; }
        other kmem/kmalloc/format; other kmem/kmalloc/filter; other kmem/kmalloc/enable; other kmem/enable; other enable
        try() { member "$SORDINO" record -o "$USER_HOME/$1" --kernel "$2" -- true >/dev/null 2>"$USER_HOME/$1.err"; }
        try kmem kmem_cache_alloc && echo recorded || sed 's/^/refused /' "$USER_HOME/kmem.err"
        try sched 'sched,irq,timer' && echo allowed || cat "$USER_HOME/sched.err" >&2
        grants --all-events | sed 's/^/all /'
        echo "later $(writable | grep -c /events/kmem/)"
        grants | sed 's/^/again /'
        "#,
    ) else {
        return;
    };
    ended.succeeded();
    let given = lines(&ended, "given");
    let systems: std::collections::BTreeSet<&str> =
        given.iter().filter_map(|path| path.split_once('/')).map(|(system, _)| system).collect();
    for named in ["sched", "irq", "timer", "workqueue", "raw_syscalls", "task"] {
        assert!(systems.contains(named), "{named}: {systems:?}");
    }
    for others in ["kmem", "block", "syscalls", "net", "tcp", "i2c", "spi"] {
        assert!(!systems.contains(others), "{others}: {systems:?}");
    }
    assert!(!given.contains(&"enable"), "the switch of all events is given");
    let other = lines(&ended, "other");
    assert!(other.len() == 5 && other.iter().all(|line| line.ends_with(" 1")), "{other:?}");
    assert!(ended.output.contains("refused") && ended.output.contains("--all-events"), "{}", ended.output);
    assert_eq!(lines(&ended, "recorded").len(), 0);
    assert_eq!(lines(&ended, "allowed").len(), 1, "{}", ended.errors);
    assert_eq!(lines(&ended, "journal"), ["600 root"]);
    let all = lines(&ended, "all").join(" ");
    assert!(all.contains("warning") && all.contains("addresses"), "{}", ended.output);
    assert!(lines(&ended, "later")[0].parse::<u32>().unwrap() > 1);
    // A process with the file open would keep its event alive: only a new instance gives fewer.
    assert!(lines(&ended, "again").join(" ").contains("revoke"), "{}", ended.output);
}

#[test]
fn revoke_names_who_holds_an_instance_and_goes_on_with_force() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(ended) = traced(
        &scene,
        r#"
        at=$instances/sordino.sys.1
        grants >/dev/null
        (cd "$USER_HOME" && exec setpriv --reuid 65534 --regid 65534 --groups 3 --inh-caps=-all -- "$ATTACK" lock $at) &
        attack=$!
        until_there "$USER_HOME/waiting"; rm "$USER_HOME/waiting"
        bounded "$SORDINO" revoke sys 2>&1 | sed "s/$attack/HOLDER/g; s/^/plain /"
        [ -d $at ] && echo kept
        bounded "$SORDINO" revoke sys --force && echo forced
        [ -d $at ] || echo gone
        kill -9 $attack; wait $attack || true

        grants >/dev/null
        (cd "$USER_HOME" && exec setpriv --reuid 65534 --regid 65534 --groups 3 --inh-caps=-all -- "$ATTACK" hold $at/per_cpu/cpu0/trace_pipe_raw) &
        attack=$!
        until_there "$USER_HOME/waiting"
        bounded "$SORDINO" revoke sys --force 2>&1 | sed "s/$attack/HOLDER/g; s/^/open /" || true
        echo "closed $(writable | wc -l) $(member ls $at 2>&1 | grep -c denied) $(cat $at/tracing_on)"
        stat -c 'root %a' /sys/kernel/tracing
        grants | sed 's/^/granted /'
        kill -9 $attack; wait $attack || true
        bounded "$SORDINO" revoke sys && echo revoked
        [ -d $at ] || echo gone
        find /run/sordino 2>/dev/null | sed 's/^/left /'
        "#,
    ) else {
        return;
    };
    let text = &ended.output;
    let plain = lines(&ended, "plain").join(" ");
    for word in ["sordino.sys.1", "process HOLDER", "attack", "--force"] {
        assert!(plain.contains(word), "'{word}' is not in: {text}\n{}", ended.errors);
    }
    assert_eq!((lines(&ended, "kept").len(), lines(&ended, "forced").len()), (1, 1), "{text}");
    let open = lines(&ended, "open").join(" ");
    assert!(open.contains("process HOLDER") && open.contains("attack"), "{text}\n{}", ended.errors);
    assert_eq!(lines(&ended, "closed"), ["0 1 0"], "{text}");
    assert_eq!(lines(&ended, "root"), ["700"], "{text}");
    // An instance that a process still reads is given to no other user.
    assert!(lines(&ended, "granted").join(" ").contains("still busy"), "{text}");
    assert_eq!((lines(&ended, "revoked").len(), lines(&ended, "gone").len()), (1, 2), "{text}");
    assert!(lines(&ended, "left").is_empty(), "{text}");
}

#[test]
fn a_guessed_name_of_a_temporary_directory_is_not_used() {
    let Some(scene) = Scene::new().as_root() else { return };
    let ended = run(
        &scene,
        r#"
        mkdir -m 700 "$SCENE/roots"; echo untouched >"$SCENE/roots/file"
        as_user "$ATTACK" guess "$TMPDIR" "$SCENE/roots"
        bounded "$SORDINO" npt -p 0 -l 10 -n 0 --sink lttng --json >/dev/null && echo measured
        cat "$SCENE/roots/file"
        find "$TMPDIR" -mindepth 1 -maxdepth 1 -user 0 | sed 's/^/left /'
        "#,
    );
    assert_eq!(ended.succeeded(), "measured\nuntouched\n", "{}", ended.errors);
}

#[test]
fn the_guardian_removes_only_what_is_its_own_and_ends_when_it_is_made_again() {
    let Some(scene) = Scene::new().as_root() else { return };
    let ended = run(
        &scene,
        r#"
        mkdir -m 700 "$SCENE/roots"; echo untouched >"$SCENE/roots/file"
        guarded() { bounded "$ATTACK" guarded "$SORDINO" "$@" || echo "hung $1"; }
        as_user "$ATTACK" recreate "$TMPDIR/again" &
        rmdir "$TMPDIR/again" 2>/dev/null || true
        until guarded "$TMPDIR/again" 2>/dev/null | grep undone; do rm -rf "$TMPDIR/again"; done
        kill -9 $! 2>/dev/null || true

        as_user mkdir "$TMPDIR/planted"; as_user touch "$TMPDIR/planted/file"
        guarded "$TMPDIR/planted" taken | sed 's/^/planted /'
        [ -e "$TMPDIR/planted/file" ] && echo kept

        as_user ln -s "$SCENE/roots" "$TMPDIR/link"
        guarded "$TMPDIR/link" taken | sed 's/^/link /'
        cat "$SCENE/roots/file"
        guarded "$TMPDIR/never" taken | sed 's/^/never /'
        guarded "$TMPDIR/own" | sed 's/^/own /'
        [ -e "$TMPDIR/own" ] || echo gone
        "#,
    );
    let text = ended.succeeded();
    assert!(!text.contains("hung"), "{text}");
    let planted = lines(&ended, "planted").join(" ");
    assert!(planted.contains("belongs to user 65534") && text.contains("kept"), "{text}");
    assert!(lines(&ended, "link")[0].contains("no directory"), "{text}");
    assert!(text.contains("untouched"), "{text}");
    assert_eq!((lines(&ended, "never"), lines(&ended, "own")), (vec!["undone"], vec!["undone"]), "{text}");
    assert!(text.ends_with("gone\n"), "{text}");
}

#[test]
fn a_journal_that_is_not_roots_own_is_refused_and_nothing_in_it_carried_out() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(ended) = traced(
        &scene,
        r#"
        header="sordino-journal 1 $(cat /proc/sys/kernel/random/boot_id)"
        journal() { printf '%s\nwrite\t%s\tspoilt\n' "$header" "$SCENE/victim"; }
        # plant HOW: the journal at $at, as somebody else could have left it.
        plant() {
            rm -rf /run/sordino; mkdir -m 711 /run/sordino; victim; rm -f "$SCENE/planted"
            case $1 in
            link) journal >"$SCENE/planted"; chmod 600 "$SCENE/planted" ;;
            fifo) mkfifo -m 600 $at ;;
            *) journal >$at; chmod 600 $at ;;
            esac
            case $1 in
            owner) chown 65534 $at ;;
            mode) chmod 666 $at ;;
            link) ln -s "$SCENE/planted" $at ;;
            hard) ln $at /run/sordino/second ;;
            size) truncate -s 17M $at ;;
            directory) chmod 777 /run/sordino ;;
            esac
        }
        for at in /run/sordino/grant.journal /run/sordino/shield.journal; do
            for how in owner mode link fifo hard size directory; do
                plant $how
                case $at in
                *grant*) bounded "$SORDINO" revoke sys ;;
                *) bounded "$SORDINO" shield down ;;
                esac >/dev/null 2>"$SCENE/reason" && status=0 || status=$?
                echo "refused $status $at $how: $(tr '\n' ' ' <"$SCENE/reason")"
                [ "$(cat "$SCENE/victim")" = untouched ] || echo "carried out $at $how"
            done
        done
        plant own; bounded "$SORDINO" shield down >/dev/null || true; cat "$SCENE/victim" | sed 's/^/own /'; echo
        rm -rf /run/sordino
        "#,
    ) else {
        return;
    };
    let text = &ended.output;
    assert!(lines(&ended, "carried out").is_empty(), "{text}");
    let refused = lines(&ended, "refused");
    assert_eq!(refused.len(), 14, "{text}\n{}", ended.errors);
    for line in &refused {
        let (status, rest) = line.split_once(' ').unwrap();
        let (_, reason) = rest.split_once(": ").unwrap();
        assert!(status == "1" || status == "2", "{line}");
        assert!(reason.contains("/run/sordino") && reason.contains("remove"), "{line}");
    }
    for word in ["user 65534", "mode 666", "no regular file", "another name", "bytes", "mode 777"] {
        assert!(refused.iter().filter(|line| line.contains(word)).count() >= 2, "'{word}': {text}");
    }
    // Only a journal that root owns is carried out.
    assert_eq!(lines(&ended, "own"), ["spoilt"], "{text}");
}
