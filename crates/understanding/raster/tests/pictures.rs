//! Tests of pictures as pixels: the colours of what is drawn, at their places.

use resvg::tiny_skia::{Pixmap, PremultipliedColorU8};
use sordino_draw::{DistributionChart, DistributionStrip, LengthSample, distributions, flat};
use sordino_event::Nanos;

fn picture() -> String {
    let sample = LengthSample {
        lengths: vec![(1000.0, 100), (1e6, 1)],
        count: 101,
        longest: Nanos(1_000_000),
        ..LengthSample::default()
    };
    let strip =
        DistributionStrip { name: "motor".to_owned(), samples: vec![Some(sample)], ..Default::default() };
    let chart = DistributionChart { title: "latency".to_owned(), strips: vec![strip], notes: Vec::new() };
    distributions("Wake-ups", &["one"], &[chart])
}

fn pixels(svg: &str) -> Pixmap {
    Pixmap::decode_png(&sordino_raster::png(&flat(svg)).unwrap()).unwrap()
}

fn colour(pixel: PremultipliedColorU8) -> (u8, u8, u8) {
    (pixel.red(), pixel.green(), pixel.blue())
}

#[test]
fn a_picture_has_its_size_its_paper_its_bars_and_its_letters() {
    let pixels = pixels(&picture());
    assert_eq!(pixels.width(), 2200);
    assert_eq!(colour(pixels.pixel(0, 0).unwrap()), (255, 255, 255));
    let count = |painted| pixels.pixels().iter().filter(|pixel| colour(**pixel) == painted).count();
    // The colours of bars and of titles in pictures.css.
    assert!(count((0x09, 0x69, 0xda)) > 100, "bars: {}", count((0x09, 0x69, 0xda)));
    assert!(count((0x1d, 0x23, 0x29)) > 300, "letters: {}", count((0x1d, 0x23, 0x29)));
}

#[test]
fn a_high_picture_is_scaled_and_no_picture_is_an_error() {
    let high = "<svg class=\"plot\" viewBox=\"0 0 100 100000\" role=\"img\">\n</svg>\n";
    assert_eq!(pixels(high).height(), 16_000);
    assert!(sordino_raster::png("<svg").is_err() && sordino_raster::png("<p/>").is_err());
}
