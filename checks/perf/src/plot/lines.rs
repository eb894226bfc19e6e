//! Cost against threads.

use std::error::Error;
use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Text};
use plotters::prelude::{BindKeyPoints, IntoLogRange};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, TextStyle, WHITE};

use super::{FONT, GREY, INK};

/// One line: nanoseconds by the number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<(usize, f64)>,
}

/// Distinct to the colour-blind, too.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0x88, 0x88, 0x88),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0x8c, 0x56, 0x4b),
];

pub(crate) fn draw(
    path: &Path,
    note: &str,
    counts: &[usize],
    lines: &[Line],
) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let costs = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let (low, high) =
        costs.fold((f64::MAX, 1.0_f64), |(low, high), cost| (low.min(cost), high.max(cost)));
    let most = counts.last().copied().unwrap_or(1) as f64;
    let (area, margin) = area.split_horizontally(660);
    let mut chart = ChartBuilder::on(&area)
        .caption("Record one event: cost against threads", (FONT, 20))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (0.9..most * 1.1)
                .log_scale()
                .base(2.0)
                .with_key_points(counts.iter().map(|&threads| threads as f64).collect()),
            (low * 0.8..high * 1.25).log_scale().with_key_points(marks(low, high)),
        )?;
    chart
        .configure_mesh()
        .x_desc(format!("threads ({note})"))
        .y_desc("nanoseconds of core time per event, logarithmic")
        .label_style((FONT, 14))
        .x_label_formatter(&|threads| format!("{threads:.0}"))
        .y_label_formatter(&|cost| {
            if *cost < 1.0 { format!("{cost:.1}") } else { format!("{cost:.0}") }
        })
        .light_line_style(WHITE)
        .bold_line_style(GREY)
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points = line.points.iter().map(|&(threads, cost)| (threads as f64, cost));
        let width = if line.label.starts_with("leaparray") { 4 } else { 2 };
        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(width)))?;
        chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    legend(&margin, lines)?;
    Ok(area.present()?)
}

/// 1, 2, 5, 10 and so on, as far as they are of use.
fn marks(low: f64, high: f64) -> Vec<f64> {
    let powers = (-1..6).map(|power| 10_f64.powi(power));
    let marks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|mark| mark * power));
    marks.filter(|mark| (low * 0.8..high * 1.25).contains(mark)).collect()
}

/// The lines' names, from the dearest at the most threads to the cheapest, as the lines end.
fn legend(area: &DrawingArea<SVGBackend<'_>, Shift>, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let mut entries: Vec<_> = lines.iter().zip(COLOURS.iter().cycle()).collect();
    let end = |line: &Line| line.points.last().map_or(0.0, |point| point.1);
    entries.sort_by(|(a, _), (b, _)| end(b).total_cmp(&end(a)));
    for (index, (line, colour)) in entries.into_iter().enumerate() {
        let y = 80 + 28 * index as i32;
        area.draw(&PathElement::new([(4, y), (26, y)], colour.stroke_width(2)))?;
        area.draw(&Circle::new((15, y), 3, colour.filled()))?;
        let style = TextStyle::from((FONT, 14).into_font()).color(&INK);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(line.label.clone(), (34, y), style))?;
    }
    Ok(())
}
