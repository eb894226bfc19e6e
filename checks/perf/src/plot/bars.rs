//! Groups of horizontal bars, each with its number, on a logarithmic scale.

use std::error::Error;
use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, TextStyle, WHITE};

use super::{FONT, GREY, INK};
use crate::report::thousands;

/// The bars of one colour.
#[derive(Clone, Debug)]
pub(crate) struct Series(pub(crate) String, pub(crate) RGBColor);

/// A plot of them.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    /// For each group its name, and a value for each of the series.
    pub(crate) rows: Vec<(String, Vec<Option<f64>>)>,
    pub(crate) series: Vec<Series>,
}

const WIDTH: i32 = 900;
const TOP: i32 = 84;
const BOTTOM: i32 = 56;
const LEFT: i32 = 300;
/// Room for the longest bar's number.
const RIGHT: i32 = 90;
const BAR: i32 = 16;
const GAP: i32 = 12;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

pub(crate) fn draw(path: &Path, bars: &Bars) -> Drawn {
    let height = TOP + bars.rows.len() as i32 * bars.group() + BOTTOM;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    text(&area, &bars.title, (WIDTH / 2, 24), 20, (HPos::Center, VPos::Center))?;
    legend(&area, bars)?;
    let scale = Scale::over(bars);
    grid(&area, bars, &scale, height - BOTTOM)?;
    for (row, (name, values)) in bars.rows.iter().enumerate() {
        let top = TOP + row as i32 * bars.group() + GAP / 2;
        group(&area, bars, &scale, top, (name, values))?;
    }
    Ok(area.present()?)
}

impl Bars {
    fn group(&self) -> i32 {
        self.series.len() as i32 * BAR + GAP
    }
}

/// Whole powers of ten from end to end.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(bars: &Bars) -> Self {
        let values = bars.rows.iter().flat_map(|(_, values)| values.iter().flatten());
        let (low, high) = values
            .fold((f64::MAX, 1.0_f64), |(low, high), &value| (low.min(value), high.max(value)));
        Self { low: (low.max(0.1) / 1.5).log10().floor(), high: high.log10().ceil() }
    }

    fn x(&self, value: f64) -> i32 {
        let share = (value.max(0.1).log10() - self.low) / (self.high - self.low);
        LEFT + (f64::from(WIDTH - LEFT - RIGHT) * share) as i32
    }
}

fn legend(area: &Area<'_>, bars: &Bars) -> Drawn {
    let mut x = LEFT;
    for Series(name, colour) in &bars.series {
        area.draw(&Rectangle::new([(x, 50), (x + 14, 64)], colour.filled()))?;
        text(area, name, (x + 20, 57), 14, (HPos::Left, VPos::Center))?;
        x += 42 + 7 * name.chars().count() as i32;
    }
    Ok(())
}

fn grid(area: &Area<'_>, bars: &Bars, scale: &Scale, bottom: i32) -> Drawn {
    for power in scale.low as i32..=scale.high as i32 {
        let value = 10_f64.powi(power);
        let x = scale.x(value);
        area.draw(&PathElement::new([(x, TOP - 6), (x, bottom)], GREY.stroke_width(1)))?;
        text(area, &number(value), (x, bottom + 14), 13, (HPos::Center, VPos::Center))?;
    }
    let middle = i32::midpoint(LEFT, WIDTH - RIGHT);
    text(area, bars.unit, (middle, bottom + 36), 14, (HPos::Center, VPos::Center))
}

fn group(
    area: &Area<'_>,
    bars: &Bars,
    scale: &Scale,
    top: i32,
    (name, values): (&str, &[Option<f64>]),
) -> Drawn {
    let middle = top + bars.series.len() as i32 * BAR / 2;
    text(area, name, (LEFT - 10, middle), 14, (HPos::Right, VPos::Center))?;
    for (index, (value, Series(_, colour))) in values.iter().zip(&bars.series).enumerate() {
        let Some(value) = *value else { continue };
        let (y, x) = (top + index as i32 * BAR, scale.x(value));
        area.draw(&Rectangle::new([(LEFT, y), (x, y + BAR - 2)], colour.filled()))?;
        text(area, &number(value), (x + 6, y + BAR / 2 - 1), 13, (HPos::Left, VPos::Center))?;
    }
    Ok(())
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, (h, v): (HPos, VPos)) -> Drawn {
    let style = TextStyle::from((FONT, size).into_font()).color(&INK).pos(Pos::new(h, v));
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

fn number(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        format!("{value:.1}")
    } else {
        thousands(value.round() as u64)
    }
}
