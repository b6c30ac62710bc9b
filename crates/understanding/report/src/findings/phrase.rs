//! The phrases of the table of causes, with their placeholders filled in.

use super::groups::groups;
use super::words::{fiber, file, sent, state, thread, waker};
use crate::span::span;
use crate::styled_text::name;
use sordino_analyze::{Cause, Main, Part, Quota, Word};
use sordino_event::text::count;

/// Returns a cause as a row of a table names it.
pub(super) fn cause(cause: &Cause) -> String {
    fill(cause.row(), cause, None)
}

/// Returns the sentence for an interval that `part` explains, without the activities of its waker.
pub(super) fn sentence(main: &Main, part: &Part) -> String {
    fill(part.sentence(), &part.cause, Some((main, part)))
}

/// Returns the phrase with the values of its placeholders, or `?` for those that this cause does not have.
fn fill(phrase: &[Word], cause: &Cause, of: Option<(&Main, &Part)>) -> String {
    phrase.iter().map(|word| text(*word, cause, of).unwrap_or_else(|| "?".into())).collect()
}

/// Returns a word's text; `None` if it is a placeholder without a value for this cause.
fn text(word: Word, cause: &Cause, of: Option<(&Main, &Part)>) -> Option<String> {
    let (main, part) = of.unzip();
    Some(match word {
        Word::Text(text) => text.into(),
        Word::Name => name(cause.name()?),
        Word::Number => cause.number()?.to_string(),
        Word::State => state(cause.state()?).into(),
        Word::Unrecorded => groups(cause.missing()?),
        Word::Behind => thread(cause.behind()?),
        Word::Fiber => fiber(cause.behind_fiber()?),
        Word::On => optional(cause.on(), |on| format!(" on {}", name(on))),
        Word::Within => optional(cause.within(), |call| format!(" in {}", name(call))),
        Word::SentBy => {
            let sender = cause.sender().map(waker).or_else(|| part?.main_sender().map(sent));
            optional(sender, |by| format!(", sent by {by}"))
        }
        Word::Time => span(part?.time),
        Word::Took => took(main?, part?),
        Word::Longer => longer(main?, part?),
        Word::Count if part?.count == 1 => "a".into(),
        Word::Count => part?.count.to_string(),
        Word::Plural if part?.count == 1 => String::new(),
        Word::Plural => "s".into(),
        Word::Quota => quota(part?.quota.as_ref()?),
        Word::OrThrottled => optional(part?.quota.as_ref(), |own| {
            let group = own.group.as_deref().map_or_else(String::new, |group| format!(" {}", name(group)));
            format!(", or throttled: its control group{group} has {} (cpu.max)", quota(own))
        }),
        Word::Group => name(part?.quota.as_ref()?.group.as_deref()?),
        Word::Beside => optional(part?.main_beside(), |by| format!("; {} had its CPU", thread(by))),
        Word::Waker => waker(part?.waker()?),
        Word::File => file(part?.main_file()?),
        Word::ByOthers => others(main?, "by", "other"),
        Word::BehindOthers => others(main?, "behind", "other"),
        Word::InOthers => others(main?, "in", "other"),
        Word::InOtherWaits => others(main?, "in", "other wait"),
    })
}

fn optional<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or(String::new(), text)
}

fn took(main: &Main, part: &Part) -> String {
    match main.excess {
        Some(excess) => format!("{} longer than usual", span(excess)),
        None => span(part.time) + &longer(main, part),
    }
}

/// Returns a comparison of the part's time with the usual one, if that is more than a tenth of it.
fn longer(main: &Main, part: &Part) -> String {
    match main.excess {
        _ if part.usual.0 <= part.time.0 / 10 => String::new(),
        Some(excess) => format!(", {} longer than usual", span(excess)),
        None => format!(" (usually {})", span(part.usual)),
    }
}

fn quota(quota: &Quota) -> String {
    format!("{} in each {}", span(quota.runtime), span(quota.period))
}

fn others(main: &Main, how: &str, what: &str) -> String {
    match main.others {
        0 => String::new(),
        others => format!(", and {} {how} {}", span(main.others_time), count(others as u64, what)),
    }
}

#[cfg(test)]
mod tests;
