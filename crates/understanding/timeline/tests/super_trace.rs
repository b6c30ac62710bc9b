//! The super-trace's state around each event.

mod support;

use sordino_event::{
    Class, Classes, Cpu, Domain, Event, Nanos, Pid, PriorityNumbering, Step, Tid, Time, Value,
};
use sordino_timeline::kernel::{FaultReason, Function, Interrupt, Sent, Syscall};
use sordino_timeline::{Host, Item, Kernel, Priority, Recorded, SuperTrace, TaskState, Vocabulary};
use support::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, ScriptThread, V};

/// Returns `time cpu tid comm priority` of each event, with `?` for unknown values.
fn lines(script: &Script) -> Vec<String> {
    let mut lines = Vec::new();
    let text = |value: Option<String>| value.unwrap_or_else(|| "?".into());
    script.play(|item| {
        if let Item::Event(moment) = item {
            let cpu = text(moment.cpu.map(|cpu| cpu.to_string()));
            let tid = text(moment.tid.map(|tid| tid.to_string()));
            let comm = text(moment.comm().map(|comm| comm.to_string()));
            let priority = text(moment.priority().map(|priority| priority.to_string()));
            lines.push(format!("{} {cpu} {tid} {comm} {priority}", moment.event.time.0));
        }
    });
    lines
}

#[test]
fn the_schedule_tells_the_thread_of_kernel_events_and_the_cpu_of_user_events() {
    let mut script = Script::new();
    script.at(1).no_cpu().user("npt:loop", NPT, &[]);
    script.at(2).cpu(1).syscall(1);
    script.at(3).cpu(1).switch(IDLE, 0, NPT);
    script.at(4).cpu(1).syscall(1);
    script.at(5).no_cpu().user("npt:loop", NPT, &[]);
    script.at(6).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(7).cpu(1).syscall_exit(1);
    script.at(8).no_cpu().user("npt:loop", NPT, &[]);
    assert_eq!(
        lines(&script),
        [
            "1 ? 10 ? ?",
            "2 1 ? ? ?",
            "3 1 0 idle nice 0",
            "4 1 10 npt RT 95",
            "5 1 10 npt RT 95",
            "6 1 10 npt RT 95",
            "7 1 123 hog RT 96",
            "8 ? 10 npt RT 95",
        ]
    );
}

#[test]
fn a_record_about_the_machine_belongs_to_no_thread_and_no_cpu() {
    let mut script = Script::new();
    script.at(1).cpu(1).switch(NPT, SLEEPING, IDLE);
    script.at(2).no_cpu().by(IDLE).kernel("sordino_steal", &[("cpu", V::U(0))]);
    assert_eq!(lines(&script)[1..], ["2 ? ? ? ?"]);
}

#[test]
fn where_kernel_records_are_missing_the_schedule_is_unknown() {
    let mut script = Script::new();
    script.at(1).cpu(1).switch(IDLE, 0, NPT);
    script.at(1).cpu(0).switch(IDLE, 0, HOG);
    script.at(2).cpu(1).lose_kernel(5, 3);
    script.at(3).cpu(1).lose_user(HOG, 5, 3);
    script.at(6).cpu(1).syscall(1);
    script.at(6).cpu(0).syscall(1);
    assert_eq!(lines(&script)[2..], ["6 1 ? ? ?", "6 0 123 hog RT 96"]);
}

#[test]
fn a_thread_that_the_kernel_did_not_name_has_its_programs_name() {
    let mut classes = Classes::default();
    let class = classes.add(Class::new(Domain::User, "motor:period", [""; 0]));
    let mut times = 1..=3;
    let source = |event: &mut Event| -> Result<Step, std::io::Error> {
        let Some(time) = times.next() else { return Ok(Step::End) };
        event.begin(Time(time), class);
        (event.tid, event.pid) = (Some(Tid(70 + time as i32)), Some(Pid(70 + time as i32 / 3)));
        Ok(Step::Event)
    };
    let mut trace = SuperTrace::new(&classes, [source]);
    trace.name_program(Host(0), Pid(70), "motor");
    let mut names = Vec::new();
    while let Some(Item::Event(moment)) = trace.next().unwrap() {
        names.push(moment.comm().map(ToString::to_string));
    }
    assert_eq!(names, [Some("motor".to_owned()), Some("motor".to_owned()), None]);
}

#[test]
fn lttng_priorities_are_the_kernels_less_a_hundred() {
    let mut script = Script::new();
    script.at(1).cpu(1).switch(ScriptThread(5, "early", -51), RUNNABLE, ScriptThread(0, "swapper/1", 20));
    script.at(2).cpu(1).switch(ScriptThread(0, "swapper/1", 20), 0, ScriptThread(6, "nice", 20));
    assert_eq!(lines(&script), ["1 1 5 early RT 50", "2 1 0 idle nice 0"]);
}

#[test]
fn threads_are_known_from_forks_dumps_renames_and_execs() {
    let mut script = Script::new();
    let dump = |script: &mut Script, tid: i64, pid: i64, name| {
        script.kernel(
            "lttng_statedump_process_state",
            &[("tid", V::I(tid)), ("pid", V::I(pid)), ("name", V::T(name)), ("prio", V::I(10))],
        );
    };
    let newtask = |script: &mut Script, tid: i64, flags: u64| {
        script.kernel(
            "task_newtask",
            &[("pid", V::I(tid)), ("comm", V::T("maker")), ("clone_flags", V::U(flags))],
        );
    };
    script.at(1).cpu(0);
    dump(&mut script, 40, 40, "maker");
    script.at(2).switch(IDLE, 0, ScriptThread(40, "maker", 120));
    newtask(script.at(3), 41, 0x10000);
    newtask(script.at(4), 42, 0x11);
    script.at(5).kernel("task_rename", &[("tid", V::I(41)), ("newcomm", V::T("worker"))]);
    script.at(6).kernel(
        "sched_process_fork",
        &[("child_tid", V::I(43)), ("child_comm", V::T("maker")), ("child_pid", V::I(40))],
    );
    script.at(7).kernel("sched_process_exec", &[("tid", V::I(42)), ("old_tid", V::I(42))]);
    // A dump that comes late does not revert a rename.
    script.at(8);
    dump(&mut script, 41, 40, "maker");

    let mut known = Vec::new();
    script.play(|item| {
        if let Item::Event(moment) = item {
            known = [40, 41, 42, 43]
                .map(|tid| {
                    let system = moment.system;
                    let pid = system.pid(Tid(tid)).map_or(0, |pid| pid.0);
                    let priority = system.priority(Tid(tid)).map_or(0, |priority| priority.0);
                    (pid, system.comm(Tid(tid)).map_or("?", |comm| comm).to_owned(), priority)
                })
                .to_vec();
        }
    });
    let known: Vec<_> = known.iter().map(|(pid, comm, priority)| (*pid, comm.as_str(), *priority)).collect();
    assert_eq!(known, [(40, "maker", 120), (40, "worker", 110), (42, "maker", 0), (40, "maker", 0)]);
}

#[test]
fn a_thread_that_execs_takes_the_number_of_its_process() {
    let mut script = Script::new();
    script.at(1).cpu(2).switch(IDLE, 0, ScriptThread(51, "worker", 4));
    script.at(2).kernel("sched_process_exec", &[("pid", V::I(50)), ("old_pid", V::I(51))]);
    script.at(3).kernel("sched_process_free", &[("comm", V::T("x")), ("pid", V::I(50)), ("prio", V::I(1))]);
    let mut seen = Vec::new();
    script.play(|item| {
        if let Item::Event(moment) = item {
            seen.push((moment.system.comm(Tid(50)).is_some(), moment.system.pid(Tid(50))));
        }
    });
    assert_eq!(seen, [(false, None), (true, Some(Pid(50))), (false, None)]);
}

/// Tests the decoding of an event called `name` with these fields.
fn says(name: &str, fields: &[(&str, Value)], test: impl FnOnce(Option<Kernel<'_>>, Recorded)) {
    let mut classes = Classes::default();
    let class = classes.add(Class::new(Domain::Kernel, name, fields.iter().map(|(name, _)| *name)));
    let vocabulary = Vocabulary::new(&classes);
    let mut event = Event::default();
    event.begin(Time(1), class);
    fields.iter().for_each(|(_, value)| event.push(*value));
    test(vocabulary.read(&event), vocabulary.recorded());
}

#[test]
fn the_kernels_lttngs_and_perfs_names_mean_the_same() {
    let number = Value::signed;
    let switch = |tid: &str| {
        let [prev, next] = ["prev", "next"].map(|who| format!("{who}_{tid}"));
        let fields = [(prev.as_str(), number(1)), ("prev_state", number(1)), (next.as_str(), number(2))];
        for name in ["sched_switch", "sched:sched_switch"] {
            says(name, &fields, |kernel, recorded| {
                let Some(Kernel::Switch { prev, state, next }) = kernel else { panic!("{name}: {kernel:?}") };
                assert_eq!((prev.tid, state, next.tid), (Tid(1), TaskState::Interruptible, Tid(2)));
                assert!(recorded.switches && !recorded.wakeups);
            });
        }
    };
    switch("tid");
    switch("pid");
    for (name, expected) in [
        ("softirq_entry", Kernel::Enter(Interrupt::Softirq(7))),
        ("irq_softirq_exit", Kernel::Exit(Interrupt::Softirq(7))),
    ] {
        says(name, &[("vec", number(7))], |kernel, _| assert_eq!(kernel, Some(expected), "{name}"));
    }
    for name in ["local_timer_entry", "x86_irq_vectors_local_timer_entry"] {
        says(name, &[("vector", number(236))], |kernel, recorded| {
            assert_eq!(kernel, Some(Kernel::Enter(Interrupt::Vector("local_timer"))));
            assert!(recorded.vectors && !recorded.irqs);
        });
    }
    for name in ["hrtimer_expire_entry", "timer_hrtimer_expire_entry", "timer_expire_entry"] {
        says(name, &[("function", Value::unsigned(u64::MAX))], |kernel, _| {
            let function = Function::Address(u64::MAX);
            assert_eq!(kernel, Some(Kernel::TimerEntry { function, timer: None }));
        });
    }
    let [timer, now] = [("hrtimer", Value::unsigned(0xffff_8000)), ("now", Value::signed(9))];
    says("timer_hrtimer_expire_entry", &[timer, now, ("function", Value::unsigned(1))], |kernel, _| {
        let (function, timer) = (Function::Address(1), Some((0xffff_8000, 9)));
        assert_eq!(kernel, Some(Kernel::TimerEntry { function, timer }));
    });
    let due = [timer, ("expires", Value::signed(7)), ("softexpires", Value::signed(5))];
    says("timer_hrtimer_start", &due, |kernel, _| {
        assert_eq!(kernel, Some(Kernel::TimerStart { timer: 0xffff_8000, due: [5, 7] }));
    });
    for (name, user) in [("page_fault_user", true), ("x86_exceptions_page_fault_kernel", false)] {
        says(name, &[], |kernel, _| assert_eq!(kernel, Some(Kernel::Fault { user, reason: None })));
    }
    // x86: missing, written, fetched, read without permission; RISC-V: fetched, read, written.
    let protected = Some(FaultReason::WriteProtected);
    let missing = Some(FaultReason::Missing);
    let codes = [(4, missing), (6, missing), (20, missing), (7, protected), (3, protected), (5, None)];
    for (code, reason) in codes.into_iter().chain([(12, None), (13, None), (15, None)]) {
        says("page_fault_user", &[("error_code", Value::unsigned(code))], |kernel, _| {
            assert_eq!(kernel, Some(Kernel::Fault { user: true, reason }), "{code}");
        });
    }
    for name in ["mm_page_alloc", "kmem_mm_page_alloc"] {
        says(name, &[("order", Value::unsigned(9))], |kernel, _| {
            assert_eq!(kernel, Some(Kernel::Allocation { order: 9 }));
        });
    }
    for (handler, is_handled) in [(0, false), (1, false), (0x5555_0000_1000, true)] {
        says(
            "signal_deliver",
            &[("sig", number(10)), ("sa_handler", Value::unsigned(handler))],
            |kernel, recorded| {
                assert_eq!(kernel, Some(Kernel::SignalDelivered { signal: 10, is_handled }));
                assert!(recorded.signals);
            },
        );
    }
    for (result, became) in
        [(0, Sent::Pending), (1, Sent::Dropped), (2, Sent::Again), (3, Sent::Dropped), (4, Sent::Pending)]
    {
        let fields =
            [("sig", number(10)), ("pid", number(7)), ("group", number(1)), ("result", number(result))];
        says("signal_generate", &fields, |kernel, _| {
            let (tid, is_for_process, result) = (Tid(7), Some(true), Some(became));
            assert_eq!(kernel, Some(Kernel::SignalSent { signal: 10, tid, is_for_process, result }));
        });
    }
    let to = Cpu(3);
    let sent = [("cpu", number(3)), ("callback", Value::unsigned(0))];
    says("ipi_send_cpu", &sent, |kernel, _| {
        assert_eq!(kernel, Some(Kernel::Message { to, function: None }));
    });
    let called = [("cpu", number(3)), ("callback", Value::unsigned(0x10))];
    says("ipi_send_cpu", &called, |kernel, _| assert_eq!(kernel, None));
    says("csd_queue_cpu", &[("cpu", number(3)), ("func", Value::unsigned(0x10))], |kernel, _| {
        let function = Some(Function::Address(0x10));
        assert_eq!(kernel, Some(Kernel::Message { to, function }));
    });
    for pid in ["tid", "pid"] {
        says("signal_generate", &[("sig", number(10)), (pid, number(7))], |kernel, _| {
            let (tid, is_for_process, result) = (Tid(7), None, None);
            assert_eq!(kernel, Some(Kernel::SignalSent { signal: 10, tid, is_for_process, result }));
        });
    }
}

#[test]
fn system_calls_are_known_by_all_their_names() {
    let id = [("id", Value::signed(1))];
    let entry = |call, arguments| Some(Kernel::SyscallEntry { call, arguments });
    says("sys_enter", &id, |kernel, _| assert_eq!(kernel, entry(Syscall::Number(1), [None; 3])));
    let futex = [("uaddr", Value::unsigned(0x7f00)), ("op", Value::signed(129)), ("val", Value::unsigned(2))];
    says("sys_enter_futex", &futex, |kernel, _| {
        assert_eq!(kernel, entry(Syscall::Name("futex"), [Some(0x7f00), Some(129), Some(2)]));
    });
    for name in ["sys_enter_write", "syscall_entry_write", "compat_syscall_entry_write", "sys_write"] {
        says(name, &[], |kernel, recorded| {
            assert_eq!(kernel, entry(Syscall::Name("write"), [None; 3]), "{name}");
            assert!(recorded.syscalls);
        });
    }
    says("sys_exit", &id, |kernel, _| assert_eq!(kernel, Some(Kernel::SyscallExit)));
    for name in ["sys_exit_write", "syscall_exit_write", "exit_syscall"] {
        says(name, &[], |kernel, _| assert_eq!(kernel, Some(Kernel::SyscallExit), "{name}"));
    }
    // The system call exit, in the name that LTTng used before it recorded the number.
    says("sys_exit", &[("error_code", Value::signed(0))], |kernel, _| {
        assert_eq!(kernel, entry(Syscall::Name("exit"), [None; 3]));
    });
}

#[test]
fn an_event_without_the_fields_it_takes_says_nothing() {
    says("sched_switch", &[("prev_tid", Value::signed(1))], |kernel, _| assert_eq!(kernel, None));
    let huge = [("tid", Value::signed(1 << 40)), ("target_cpu", Value::signed(0))];
    says("sched_waking", &huge, |kernel, _| assert_eq!(kernel, None));
    let no_cpu = [("tid", Value::signed(3)), ("target_cpu", Value::signed(-1))];
    says("sched_waking", &no_cpu, |kernel, _| {
        assert_eq!(kernel, Some(Kernel::Waking { tid: Tid(3), cpu: None, priority: None }));
    });
    let negative = [("handler", Value::unsigned(9)), ("delta_ns", Value::signed(-5))];
    says("nmi_handler", &negative, |kernel, _| {
        let nothing = Kernel::Nmi { handler: Function::Address(9), duration: Nanos::ZERO };
        assert_eq!(kernel, Some(nothing));
    });
}

#[test]
fn a_programs_event_is_never_taken_for_the_kernels() {
    let mut classes = Classes::default();
    let class = classes.add(Class::new(Domain::User, "sched_process_free", ["tid"]));
    let mut event = Event::default();
    event.begin(Time(1), class);
    event.push(Value::signed(1));
    assert_eq!(Vocabulary::new(&classes).read(&event), None);
}

/// The priorities of two threads, numbered 20 and 39, in a trace that states `numbering`; first the idle thread has
/// run, or it has not.
fn priorities(numbering: Option<PriorityNumbering>, idle: Option<i32>) -> Vec<i32> {
    let ordinary = [ScriptThread(10, "npt", 20), ScriptThread(11, "hog", 39)];
    let mut script = Script::of_programs();
    script.numbering = numbering;
    if let Some(priority) = idle {
        script.at(1).cpu(1).switch(ScriptThread(0, "swapper/1", priority), 0, ordinary[0]);
    }
    script.at(2).cpu(1).switch(ordinary[0], 0, ordinary[1]);
    let mut found = Vec::new();
    script.play(|item| {
        if let Item::Event(moment) = item {
            found = ordinary.map(|thread| moment.system.priority(Tid(thread.0))).to_vec();
        }
    });
    found.into_iter().map(|priority| priority.unwrap().0).collect()
}

#[test]
fn priorities_are_as_the_trace_states_from_the_start_and_whatever_they_are() {
    let (lttng, kernel) = (Some(PriorityNumbering::Lttng), Some(PriorityNumbering::Kernel));
    for idle in [None, Some(20), Some(120)] {
        assert_eq!(priorities(lttng, idle), [120, 139], "{idle:?}");
        assert_eq!(priorities(kernel, idle), [20, 39], "{idle:?}");
    }
}

#[test]
fn priorities_of_a_trace_that_states_no_numbering_are_guessed_by_the_idle_thread() {
    assert_eq!(priorities(None, None), [20, 39]);
    assert_eq!(priorities(None, Some(120)), [20, 39]);
    assert_eq!(priorities(None, Some(20)), [120, 139]);
}

#[test]
fn a_programs_event_names_its_thread_where_the_trace_has_the_name_with_it() {
    let mut script = Script::of_programs();
    script.at(1).cpu(0).user("a:b", NPT, &[("$ctx.procname", V::T("engine"))]);
    // A field of the program's own does not name the thread.
    script.at(2).cpu(0).user("a:c", HOG, &[("procname", V::T("engine"))]);
    assert_eq!(lines(&script), ["1 0 10 engine ?", "2 0 123 ? ?"]);
}

#[test]
fn the_system_answers_for_threads_that_run() {
    let mut script = Script::new();
    script.at(1).cpu(1).switch(IDLE, 0, KWORKER);
    script.at(2).cpu(1).switch(KWORKER, SLEEPING, IDLE);
    let mut cpus = Vec::new();
    script.play(|item| {
        if let Item::Event(moment) = item {
            cpus.push((moment.system.cpu(Tid(77)), moment.system.running(Cpu(1))));
            assert_eq!(moment.system.priority(Tid(0)), Some(Priority(120)));
        }
    });
    assert_eq!(cpus, [(Some(Cpu(1)), Some(Tid(77))), (None, Some(Tid(0)))]);
}
