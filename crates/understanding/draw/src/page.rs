//! The page: findings with pictures, in one file.

use crate::key::html_key;
use crate::markup::{escape, fitting};
use crate::plot::{MOST_LOSSES, course, histogram};
use crate::style::{Fillings, PAGE, PICTURES};
use crate::timeline::{Frame, timeline};
use sordino_analyze::{Explanation, Findings};
use sordino_event::Time;
use sordino_event::text::count;
use sordino_intervals::LengthDistribution;
use sordino_lanes::Lanes;
use sordino_report::{FindingsText, headline};
use std::fmt::Write;

const SCRIPT: &str = include_str!("page/page.js");
/// The number of stretches, of marks and of arrows in all timelines of a page, unless it gets too large by them.
const MOST_STRETCHES: usize = 6000;
/// The maximum size of a page in bytes, and the number of stretches below which it has fewer pictures instead.
const LARGEST: usize = 1_900_000;
const LEAST_STRETCHES: usize = 500;
/// The bytes of a heading or a setting, of a text, and of a fact: a page without pictures stays below its maximum size.
const HEADING: usize = 4_000;
const TEXT: usize = 20_000;
const FACT: usize = 40_000;

/// Contents of a page.
#[derive(Clone, Copy, Debug)]
pub struct ReportPage<'a> {
    /// The recording's directory, as the user named it.
    pub recording: &'a str,
    /// The intervals with their causes.
    pub findings: &'a Findings,
    /// The same findings in words.
    pub text: &'a FindingsText,
    /// The lengths of all intervals.
    pub distribution: &'a LengthDistribution,
    /// The lanes around the first intervals of the findings.
    pub lanes: &'a [Lanes],
    /// The time of the recording's first event.
    pub begin: Time,
    /// Tables of the whole recording as text, by title.
    pub tables: &'a [(&'a str, String)],
    /// Facts about the recording, by name.
    pub facts: &'a [(String, String)],
    /// Settings of its machine by name; `None` if the recording does not have one.
    pub settings: &'a [(&'a str, Option<&'a str>)],
}

/// One of the longest intervals: its explanation and its picture.
#[derive(Clone, Copy, Debug)]
pub struct Peak<'a> {
    /// The rank of the interval by length, from 1 on.
    pub rank: usize,
    /// The explanation of the interval.
    pub explanation: &'a Explanation,
    /// The lanes around the interval.
    pub lanes: &'a Lanes,
}

impl Peak<'_> {
    /// Returns the title of the peak's picture: its rank, length and cause.
    pub fn title(&self) -> String {
        let length = self.explanation.length;
        format!("#{}: {length}: {}", self.rank, headline(self.explanation))
    }

    /// Returns the peak's timeline as an SVG element with at most so many stretches, with its title and the key of its
    /// colours.
    pub fn picture(&self, most: usize) -> String {
        self.timeline(most, true)
    }

    fn timeline(&self, most: usize, is_alone: bool) -> String {
        let interval = &self.explanation.interval;
        let title = self.title();
        timeline(self.lanes, &Frame { from: interval.begin, to: interval.end, title: &title, is_alone, most })
    }
}

/// The budget of a page for its pictures.
#[derive(Clone, Copy, Debug)]
struct PictureBudget {
    /// The number of intervals with a picture, the longest ones.
    pictures: usize,
    /// The number of stretches in all pictures.
    stretches: usize,
}

/// Returns a self-contained HTML page: no script, font or image comes from elsewhere. The number of stretches in its
/// timelines is limited so that the page stays below 2 MB. If the minimum is still too much, only the first intervals
/// have a picture.
pub fn page(page: &ReportPage<'_>) -> String {
    let mut budget = PictureBudget { pictures: page.lanes.len(), stretches: MOST_STRETCHES };
    loop {
        let html = html(page, budget);
        match budget {
            _ if html.len() <= LARGEST => return html,
            PictureBudget { pictures: 0, .. } => return html,
            PictureBudget { stretches, .. } if stretches > LEAST_STRETCHES => budget.stretches /= 2,
            _ => budget.pictures /= 2,
        }
    }
}

fn html(page: &ReportPage<'_>, budget: PictureBudget) -> String {
    let rule = &page.findings.rule;
    let title = fitting(&format!("{rule} in {}", page.recording), HEADING);
    let mut html = String::new();
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{PAGE}{PICTURES}</style></head>\n<body>\n<h1>Why did {} take long?</h1>\n",
        fitting(rule, HEADING)
    );
    answer(page, &mut html);
    lengths(page, &mut html);
    peaks(page, budget, &mut html);
    section("Causes, ranked", &page.text.ranking, &mut html);
    for (title, table) in page.tables {
        section(title, table, &mut html);
    }
    section("What is missing", &page.text.gaps, &mut html);
    facts(page, &mut html);
    let _ = write!(html, "<script>\n{SCRIPT}</script>\n</body></html>\n");
    html
}

/// Writes the cause of the longest interval, and the statistics of all.
fn answer(page: &ReportPage<'_>, html: &mut String) {
    if let Some(longest) = page.findings.intervals.first() {
        let _ = writeln!(
            html,
            "<p class=\"answer\">The longest took <b>{}</b>: {}</p>",
            longest.length,
            escape(&headline(longest))
        );
    }
    let _ = writeln!(html, "<p>{}</p>", fitting(&page.text.summary, TEXT));
    for loss in page.findings.lost.iter().take(1) {
        let _ = writeln!(
            html,
            "<p class=\"alarm\">Records are lost ({}, the first at {}): see what is missing below.</p>",
            count(page.findings.lost.len(), "loss"),
            loss.from - page.begin
        );
    }
}

fn lengths(page: &ReportPage<'_>, html: &mut String) {
    let lost: Vec<_> = page.findings.lost.iter().map(|loss| (loss.from, loss.to)).collect();
    let by_length = "Number of intervals by length";
    let over_time = "The longest intervals over time";
    let hatched = match lost.len() {
        0 => String::new(),
        number if number > MOST_LOSSES => format!("; hatched: the first {MOST_LOSSES} of {number} losses"),
        _ => "; hatched: records are lost".to_owned(),
    };
    let of_each = page.distribution.stretch;
    let from_begin =
        format!("from the begin of the recording on; a dot is the longest of {of_each}{hatched}");
    let pictures = [
        (histogram(page.distribution, by_length), by_length, "both axes are logarithmic"),
        (course(page.distribution, page.begin, &lost, over_time), over_time, &from_begin),
    ];
    for (picture, title, about) in pictures.iter().filter(|(picture, ..)| !picture.is_empty()) {
        let _ = writeln!(
            html,
            "<figure><figcaption>{title} <span>({about})</span></figcaption><div class=\"wide\">{picture}</div></figure>"
        );
    }
}

/// The help for the page's timelines.
const HELP: &str = "Drag over a stretch to zoom in. With the keyboard: + and - zoom, 0 shows all, left and right move, \
                    up and down go from lane to lane, comma and full stop from stretch to stretch.";

/// Writes the intervals, the first ones with their timelines.
fn peaks(page: &ReportPage<'_>, budget: PictureBudget, html: &mut String) {
    let all = page.findings.intervals.iter().zip(page.lanes).zip(&page.text.intervals);
    if page.lanes.is_empty() {
        return;
    }
    let fillings = Fillings::new("key");
    let _ = writeln!(
        html,
        "<h2>The longest intervals</h2>\n<svg class=\"definitions\" aria-hidden=\"true\">{}</svg><p class=\"key\">{}</p>\n\
         <p class=\"quiet on-screen\">{HELP}</p>",
        fillings.definitions(),
        html_key(&fillings.variables())
    );
    let without = page.lanes.len() - budget.pictures;
    if without > 0 {
        let _ = writeln!(
            html,
            "<p class=\"alarm\">{} without a picture: the page would have more than 2 MB. \
             <code>sordino peak --rank N</code> draws one.</p>",
            count(without, "interval")
        );
    }
    let most = budget.stretches / budget.pictures.max(1);
    for (index, ((explanation, lanes), text)) in all.enumerate() {
        let peak = Peak { rank: index + 1, explanation, lanes };
        let _ = writeln!(html, "<section id=\"peak{}\"><h3>{}</h3>", peak.rank, escape(&peak.title()));
        if index < budget.pictures {
            figure(&peak.timeline(most, false), html);
        }
        let _ = writeln!(html, "<pre>{}</pre></section>", fitting(text, TEXT));
    }
}

/// Writes a timeline with its buttons.
fn figure(timeline: &str, html: &mut String) {
    let _ = writeln!(
        html,
        "<figure><div class=\"wide\">{timeline}</div>\n<div class=\"bar-of-buttons\">\
         <button data-zoom=\"in\">zoom in</button><button data-zoom=\"out\">zoom out</button>\
         <button data-zoom=\"interval\">the interval</button><button data-zoom=\"all\">all</button>\
         <span class=\"readout\" aria-live=\"polite\">Point at a stretch for its thread and times.</span></div></figure>"
    );
}

fn section(title: &str, text: &str, html: &mut String) {
    if !text.trim().is_empty() {
        let _ = writeln!(html, "<h2>{title}</h2>\n<pre>{}</pre>", fitting(text.trim_matches('\n'), TEXT));
    }
}

fn facts(page: &ReportPage<'_>, html: &mut String) {
    html.push_str("<h2>The recording</h2>\n<table class=\"facts\">\n");
    for (name, value) in page.facts {
        row(name, value, FACT, html);
    }
    html.push_str("</table>\n<h2>How the machine was set</h2>\n<table class=\"facts\">\n");
    for (name, value) in page.settings {
        row(name, value.unwrap_or("not recorded"), HEADING, html);
    }
    html.push_str("</table>\n");
}

/// The number of letters from which on a value is folded up.
const LONG: usize = 400;

/// Writes a fact, with a value of at most so many bytes.
fn row(name: &str, value: &str, most: usize, html: &mut String) {
    let number = value.split(", ").count();
    let is_long = value.len() > LONG && number > 1;
    let value = fitting(value, most);
    let _ = match is_long {
        true => writeln!(
            html,
            "<tr><th>{}</th><td><details><summary>{number}</summary>{value}</details></td></tr>",
            escape(name)
        ),
        false => writeln!(html, "<tr><th>{}</th><td>{value}</td></tr>", escape(name)),
    };
}
