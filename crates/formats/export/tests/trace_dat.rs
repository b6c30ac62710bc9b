//! Records of trace-cmd's format at the limits of a page.

#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use sordino_event::{Class, Classes, Cpu, Domain, Event, Step, Time, Value};
use sordino_export::{DirectoryExporter, Files, TraceDat};
use support::{each, origin};

const PAGE: usize = 1 << 16;
/// Bytes in front of a page's first long record, and of those in front of its fields.
const RECORD: usize = 16 + 8;
const FIELDS: usize = RECORD + 8;

/// Returns the pages of an event of CPU 0 with the values that `push` appends, or `None` if the format can't have it.
fn pages(fields: usize, push: impl Fn(&mut Event)) -> Option<Vec<u8>> {
    let (mut classes, mut is_taken) = (Classes::default(), false);
    let names = (0..fields).map(|number| format!("f{number}"));
    let class = classes.add(Class::new(Domain::Kernel, "large", names));
    let (mut exporter, mut files) = (TraceDat::new(&classes, &origin()), Files::default());
    let mut events = 1..=1;
    let source = |event: &mut Event| {
        let Some(time) = events.next() else { return Ok(Step::End) };
        event.begin(Time(time), class);
        event.cpu = Some(Cpu(0));
        push(event);
        Ok::<_, std::convert::Infallible>(Step::Event)
    };
    each(&classes, [source], |item| {
        is_taken = exporter.can_take(item);
        if is_taken {
            exporter.take(item, &mut files);
        }
    });
    exporter.end(&mut files);
    let mut content = Vec::new();
    files.drain().filter(|(name, _)| name == "cpu00000").for_each(|(_, bytes)| content.extend(bytes));
    is_taken.then_some(content)
}

fn word(bytes: &[u8]) -> usize {
    u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize
}

/// Checks that the page has room for the sizes in its header.
fn assert_fits(page: &[u8]) {
    assert_eq!(page.len(), PAGE);
    let (events, record) = (word(&page[8..]), word(&page[20..]) - 4);
    assert!(events <= PAGE - RECORD && record + 8 == events, "{events} bytes, {record} of the record");
}

#[test]
fn texts_of_an_event_fill_a_record_and_no_more() {
    for texts in [1, 2, 5, 9] {
        for bytes in [70_000, 65_000, 65_478, 65_479, 65_480] {
            let text = vec![b'x'; bytes];
            let page = pages(texts, |event| (0..texts).for_each(|_| event.push_text(&text))).unwrap();
            assert_fits(&page);
            for field in 0..texts {
                let location = word(&page[FIELDS + 4 * field..]);
                let (place, length) = (location & 0xffff, location >> 16);
                let text = &page[RECORD + place..][..length];
                let (end, text) = text.split_last().unwrap();
                assert_eq!((*end, text.contains(&0)), (0, false), "{texts} texts of {bytes}, {field}");
                let is_cut = text.len() < bytes && text.len() >= 3;
                assert_eq!((text.ends_with(b"..."), text.len() > 60_000), (is_cut, field == 0));
            }
        }
    }
}

#[test]
fn an_event_whose_numbers_fill_more_than_a_page_is_left_out() {
    let numbers = |count| pages(count, move |event| (0..count).for_each(|_| event.push(Value::unsigned(7))));
    let most = (PAGE - RECORD - 16 - 8) / 8;
    assert_fits(&numbers(most).unwrap());
    assert!(numbers(most + 1).is_none());
    let texts = |count| pages(count, move |event| (0..count).for_each(|_| event.push_text(b"text")));
    let most = (PAGE - RECORD - 16 - 8) / 5;
    assert_fits(&texts(most).unwrap());
    assert!(texts(most + 1).is_none());
}
