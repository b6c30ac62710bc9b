//! Tests of the senders of another CPU's interrupts.

mod support;

use sordino_analyze::{Part, Sender, Waker};
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script, V, explain_longest, loops, name};

/// Returns the senders of each interrupt in the loop that begins at 1000 on cpu1: the interrupt, the sender, the
/// function, the number.
fn senders(fill: impl Fn(&mut Script)) -> Vec<String> {
    let mut script = loops("a:b");
    script.at(1000).cpu(0).by(IDLE).switch(IDLE, 0, HOG);
    fill(&mut script);
    script.at(5000).cpu(1).by(NPT).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    let causes_of = |interrupt: String, Sender { by, function, count }: &Sender| {
        let by = match by {
            Waker::Thread { thread } => thread.comm.as_deref().unwrap_or("?").to_owned(),
            Waker::Interrupt { cause, .. } => name(cause),
            Waker::Fiber { .. } | Waker::Unknown => "unknown".to_owned(),
        };
        format!("{interrupt}: {by} {} {count}", function.as_deref().unwrap_or("-"))
    };
    let of = |part: &Part| {
        part.senders.iter().map(|sender| causes_of(name(&part.cause), sender)).collect::<Vec<_>>()
    };
    explanation.parts.iter().flat_map(of).collect()
}

fn call(script: &mut Script, to: i64, function: u64) -> &mut Script {
    script.kernel("csd_queue_cpu", &[("cpu", V::I(to)), ("func", V::U(function))])
}

fn reschedule(script: &mut Script, to: i64, callback: u64) -> &mut Script {
    script.kernel("ipi_send_cpu", &[("cpu", V::I(to)), ("callback", V::U(callback))])
}

#[test]
fn an_interrupt_has_those_who_sent_it() {
    let causes_of = senders(|script| {
        let symbol = [("address", V::U(0x10)), ("name", V::T("flush"))];
        script.at(1000).kernel("sordino_statedump_symbol", &symbol);
        for at in [1100, 2100, 3100] {
            script.at(at).cpu(0).by(HOG);
            call(script, 1, 0x10);
            // This belongs to the same message.
            reschedule(script, 1, 0x99);
            script.at(at + 10).cpu(1).by(NPT).vector("call_function_single");
            script.at(at + 30).vector_exit("call_function_single");
        }
        script.at(4000).cpu(0).by(HOG);
        reschedule(script, 1, 0);
        call(script, 0, 0x10);
        script.at(4010).cpu(1).by(NPT).vector("reschedule").at(4020).vector_exit("reschedule");
    });
    assert_eq!(causes_of, ["call_function_single: hog flush 3", "reschedule: hog - 1"]);
}

#[test]
fn a_message_that_brought_no_interrupt_is_nobodys() {
    // The message came before a switch: the idle thread processes messages without an interrupt.
    let causes_of = senders(|script| {
        script.at(1100).cpu(0).by(HOG);
        call(script, 1, 0x10);
        script.at(1200).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
        script.at(1300).by(IDLE).switch(IDLE, 0, NPT);
        script.at(1400).by(NPT).vector("call_function").at(1450).vector_exit("call_function");
    });
    assert!(causes_of.is_empty(), "{causes_of:?}");
    // These are interrupts of the CPU itself, and of other messages.
    let causes_of = senders(|script| {
        script.at(1100).cpu(0).by(HOG);
        call(script, 1, 0x10);
        script.at(1200).cpu(1).by(NPT).vector("local_timer").at(1250).vector_exit("local_timer");
        script.at(1300).vector("reschedule").at(1350).vector_exit("reschedule");
        script.at(1400).vector("call_function").at(1450).vector_exit("call_function");
        script.at(1500).vector("call_function").at(1550).vector_exit("call_function");
    });
    assert_eq!(causes_of, ["call_function: hog 0x0000000000000010 1"]);
}

#[test]
fn a_handler_may_send_and_lost_records_forget() {
    let causes_of = senders(|script| {
        script.at(1100).cpu(0).by(HOG).irq(5, "disk");
        reschedule(script, 1, 0);
        script.at(1110).irq_exit(5);
        script.at(1200).cpu(1).by(NPT).vector("reschedule").at(1250).vector_exit("reschedule");
    });
    assert_eq!(causes_of, ["reschedule: irq 5 disk - 1"]);
    let causes_of = senders(|script| {
        script.at(1100).cpu(0).by(HOG);
        reschedule(script, 1, 0);
        script.at(1150).cpu(1).lose_kernel(1150, 3);
        script.at(1200).cpu(1).by(NPT).switch(HOG, RUNNABLE, NPT);
        script.at(1300).vector("reschedule").at(1350).vector_exit("reschedule");
    });
    assert!(causes_of.is_empty(), "{causes_of:?}");
}
