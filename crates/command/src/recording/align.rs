//! `--align`: pairs of events that relate the clocks of recordings.

use crate::failure::{Failure, UNUSABLE};
use crate::recording::Recording;
use clap::Args;
use sordino_event::Time;
use sordino_event::text::printable;
use sordino_reading::PairedOffset;
use sordino_selection::EventRules;
use sordino_terminal::remark;
use sordino_timeline::Item;
use std::path::{Path, PathBuf};

/// The option that relates the clocks of recordings.
#[derive(Args, Clone, Debug, Default)]
pub struct AlignOptions {
    /// Relate the clocks of several recordings by two events that happened at the same time, one of the first recording
    /// and one of another, such as net:send=net:received [default: by the machine's clock if they are of one boot, or
    /// else by the time of day]
    ///
    /// Each event is the first that matches; 'net:received if id == 7' chooses another. May be repeated: the offset of
    /// the clocks is then the middle of the pairs' offsets, and its uncertainty is their spread.
    #[arg(long, value_name = "EVENT=EVENT")]
    align: Vec<String>,
}

/// A pair of events.
struct Pair<'a> {
    text: &'a str,
    first: EventRules,
    other: EventRules,
}

/// A recording that is searched for events, with the pairs that were found: their numbers, and the times of both
/// events.
struct Searched<'a> {
    path: &'a Path,
    recording: Recording,
    found: Vec<(usize, (Time, Time))>,
}

impl AlignOptions {
    /// Returns the offsets that the pairs give the recordings after the first, by index.
    ///
    /// # Errors
    /// There is one recording only; an event is missing; pairs contradict each other.
    pub(super) fn offsets(&self, named: &[PathBuf]) -> Result<Vec<Option<PairedOffset>>, Failure> {
        let pairs = self.align.iter().map(|text| Pair::parse(text)).collect::<Result<Vec<_>, Failure>>()?;
        let Some((first, others)) = named.split_first().filter(|(_, others)| !others.is_empty()) else {
            return match pairs.is_empty() {
                true => Ok(Vec::new()),
                false => Err(unusable("--align relates the clocks of several recordings: name two or more")),
            };
        };
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let mut first = Searched::open(first)?;
        let mut others =
            others.iter().map(|path| Searched::open(path)).collect::<Result<Vec<_>, Failure>>()?;
        for (number, pair) in pairs.iter().enumerate() {
            let time = first.time_of(&pair.first, pair.text)?;
            let having = others.iter_mut().filter(|other| pair.other.check(&other.recording.classes).is_ok());
            let mut having: Vec<_> = having.collect();
            if having.is_empty() {
                // The error has a hint.
                others.iter_mut().try_for_each(|other| other.time_of(&pair.other, pair.text).map(drop))?;
                continue;
            }
            for other in &mut having {
                let time_there = other.time_of(&pair.other, pair.text)?;
                other.found.push((number, (time, time_there)));
            }
        }
        let offset = |other: &Searched<'_>| {
            let times: Vec<_> = other.found.iter().map(|(_, times)| *times).collect();
            PairedOffset::of(&times).map_err(|contradiction| {
                let (one, two) = contradiction.pairs;
                let text = |index: usize| printable(pairs[other.found[index].0].text).into_owned();
                unusable(&format!(
                    "--align '{}' and '{}' contradict each other in {}: their offsets differ by {}, more than clocks drift; \
                     leave one out, or choose its events by a condition",
                    text(one), text(two), shown(other.path), contradiction.difference
                ))
            })
        };
        std::iter::once(Ok(None)).chain(others.iter().map(offset)).collect()
    }
}

impl<'a> Pair<'a> {
    fn parse(text: &'a str) -> Result<Self, Failure> {
        let Some(middle) = single_equals_sign(text) else {
            let text =
                format!("--align '{}': expected EVENT=EVENT, such as net:send=net:receive", printable(text));
            return Err(unusable(&text));
        };
        let rules = |part: &str| {
            let part = part.trim();
            if part.is_empty() {
                let text = format!("--align '{}': an event is missing beside '='", printable(text));
                return Err(unusable(&text));
            }
            Ok(EventRules::parse("--align", &[part.to_owned()])?)
        };
        Ok(Self { text, first: rules(&text[..middle])?, other: rules(&text[middle + 1..])? })
    }
}

/// Returns the index of the first `=` outside of quotes that is no part of `==`, `!=`, `<=` or `>=`.
fn single_equals_sign(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let at = |index: Option<usize>| index.and_then(|index| bytes.get(index)).copied().unwrap_or(b' ');
    let mut is_quoted = false;
    bytes.iter().enumerate().find_map(|(index, byte)| {
        is_quoted ^= *byte == b'"' && at(index.checked_sub(1)) != b'\\';
        let is_alone = !b"=!<>".contains(&at(index.checked_sub(1))) && at(Some(index + 1)) != b'=';
        (*byte == b'=' && !is_quoted && is_alone).then_some(index)
    })
}

impl<'a> Searched<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        Ok(Self { path, recording: Recording::open(Some(path))?, found: Vec::new() })
    }

    /// Returns the time of the first event that passes the rules. Prints a message if there are more.
    fn time_of(&mut self, rules: &EventRules, pair: &str) -> Result<Time, Failure> {
        let (recording, path) = (&mut self.recording, shown(self.path));
        let (pair, begin) = (printable(pair), recording.span().0);
        rules.check(&recording.classes).map_err(|error| unusable(&format!("{path}: {error}")))?;
        let mut filter = rules.filter_of(&recording.classes, recording.facts.clone());
        let (mut found, mut has_more) = (None, false);
        recording.pass(Some("looking for events to align"), |item| {
            if let Item::Event(moment) = item
                && filter.passes(item)
            {
                has_more = found.is_some();
                found.get_or_insert(moment.event.time);
            }
            Ok(!has_more)
        })?;
        let Some(time) = found else {
            return Err(unusable(&format!("--align '{pair}': {path} has no such event")));
        };
        if has_more {
            remark(&format!(
                "--align '{pair}': {path} has several such events; the first is taken, {} after its begin",
                time - begin
            ));
        }
        Ok(time)
    }
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn unusable(text: &str) -> Failure {
    Failure::new(UNUSABLE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_split_at_the_sign_that_compares_nothing() {
        for (text, expected) in [
            ("net:send=net:receive", Some(8)),
            ("a if id == 7=b if id == 7", Some(12)),
            ("a if id >= 7 && name != \"x=y\"=b", Some(29)),
            ("a if id <= 7", None),
            ("a", None),
            ("=b", Some(0)),
        ] {
            assert_eq!(single_equals_sign(text), expected, "{text}");
        }
    }
}
